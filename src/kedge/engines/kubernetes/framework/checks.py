"""Whether a namespace can run Frameworks: the kind is known, and this user has the rights."""

from __future__ import annotations

from kedge.engines.kubernetes import permissions
from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.framework.render import VERSION
from kedge.engines.kubernetes.options import KubernetesOptions
from kedge.errors import CannotRun


def check_namespace(api: KubernetesApi, options: KubernetesOptions, setup: str) -> None:
    """CannotRun, ApiError: Frameworks cannot run in the namespace, with what is missing and who can change that."""
    if VERSION.partition("/")[0] not in api.groups():
        raise CannotRun(
            f"{api.server} has no Frameworks ({VERSION}), so no FrameworkController runs there: leave --controller "
            "framework out, so that kedge's own driver runs the job, or ask the site to install FrameworkController"
        )
    permissions.check_frameworks(api, setup, priorities=options.framework_priorities)
    _check_account(api, options, setup)


def _check_account(api: KubernetesApi, options: KubernetesOptions, setup: str) -> None:
    if not permissions.is_there(api, "ServiceAccount", options.framework_account):
        raise CannotRun(
            f"the namespace {api.namespace} has no service account {options.framework_account!r} for the pods of "
            f"Frameworks, which read their Framework: an administrator makes it with {setup} | kubectl apply -f -, or "
            "engines.kubernetes.framework-account in the site's file names another one"
        )
