"""Init program: whether the task's image can be pulled. It fails only if that is certainly impossible, because a task
that cannot get its image waits for ever; whenever there is a doubt, the task goes on.

    imageChecker [JOB_CONFIG [SECRETS]]
"""

from __future__ import annotations

from kedge import image_names
from kedge.dropin.program import FAILED, SUCCEEDED, InitContext
from kedge.dropin.registry import addresses, image
from kedge.dropin.registry.asking import Asker, Doubt, Refused
from kedge.dropin.registry.tokens import Login
from kedge.dropin.task import task_image
from kedge.dropin.task.rendering import UnknownReference
from kedge.dropin.task.task_image import NotKnown, TaskImage
from kedge.image_names import ImageName
from kedge.light.types import Mapping, Sequence

_MIRROR_SEC = 20.0  # of the whole check, for each mirror


def run(arguments: Sequence[str], context: InitContext) -> int:
    """Check the image of this task. 1: it certainly cannot be pulled."""
    try:
        found = task_image.find(arguments, context.paths, context.environment)
    except NotKnown as error:
        context.log.warning(f"the image is not checked: {error}")
        return SUCCEEDED
    except UnknownReference as error:
        context.log.error(f"the image of this task cannot be pulled: {error}")
        return FAILED
    if found is None:
        context.log.info("the configuration names no image; there is nothing to check")
        return SUCCEEDED
    return _checked(found, context)


def _checked(found: TaskImage, context: InitContext) -> int:
    log = context.log
    try:
        name = image_names.parse(found.uri)
    except ValueError as error:
        log.error(f"the image of this task cannot be pulled, because its name is not valid: {error}")
        return FAILED
    log.info(f"checking the image {found.uri}")
    try:
        log.info(f"the image {found.uri} can be pulled: {_where(name, found, context)} has it")
    except Refused as refused:
        log.error(f"the image {found.uri} cannot be pulled: {refused}")
        return FAILED
    except Doubt as doubt:
        log.warning(f"it is not known whether the image {found.uri} can be pulled, so the task goes on: {doubt}")
    except Exception:  # logged; a defect here proves nothing about the image either
        import traceback

        log.error(f"the image is not checked, because imageChecker has a defect\n{traceback.format_exc().rstrip()}")
    return SUCCEEDED


def _where(name: ImageName, found: TaskImage, context: InitContext) -> str:
    """The server that has the image. Refused, Doubt."""
    asker = Asker(context.log, context.environment)
    registries, credentials = _registries(name, found.auth, context)
    for mirror in _mirrors(name, context):
        if mirror in registries:
            continue
        try:
            return image.check(name, [mirror], None, asker.within(_MIRROR_SEC))
        except Refused as refused:
            context.log.info(f"the mirror does not have it ({refused}); asking the registry itself")
    return image.check(name, registries, credentials, asker)


def _registries(name: ImageName, auth: Mapping[str, str], context: InitContext) -> tuple[tuple[str, ...], Login | None]:
    """Where to ask, and the credentials for there. Those for another registry are never sent."""
    usual = addresses.of_image(name.registry)
    user, password, uri = auth.get("username", ""), auth.get("password", ""), auth.get("registryuri", "")
    credentials = Login(user, password) if user or password else None
    if not uri.strip():
        return usual, credentials
    try:
        registries = addresses.of_credentials(uri, name.registry)
    except ValueError as error:
        context.log.warning(
            f"'auth' of the image is ignored: its registryuri is not the address of a registry: {error}"
        )
        return usual, None
    if not registries:
        own = name.registry or "Docker Hub"
        context.log.warning(f"'auth' of the image is ignored: its registryuri is not the image's registry, {own}")
        return usual, None
    return registries, credentials


def _mirrors(name: ImageName, context: InitContext) -> list[str]:
    try:
        mirrors = addresses.mirrors(context.environment, context.paths.config)
    except (ValueError, OSError) as error:
        context.log.warning(f"the mirrors of registries are ignored: {error}")
        return []
    own = addresses.of_image(name.registry)
    return [mirror.address for mirror in mirrors if addresses.of_image(mirror.registry) == own]
