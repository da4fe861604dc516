"""What to do when an API server refuses a request for a framework."""

from __future__ import annotations

from kedge.dropin.cluster.credentials import Credentials

RESOURCE = "frameworks.frameworkcontroller.microsoft.com"
_ROLE = "framework-reader"
_SERVICE_ACCOUNT = "system:serviceaccount:"


def advice(status: int, refusal: str, credentials: Credentials, namespace: str) -> str:
    """What is missing, for 401 and 403. `refusal` is the server's message, which may name the user."""
    who = _named_in(refusal) or credentials.subject()
    needed = f"get, list and watch on {RESOURCE} in the namespace {namespace}"
    if status == 401:
        return f"{_unknown(who, credentials)} Then it needs the permission to {needed}: {_grant(who, namespace)}"
    return f"{who or 'the client'} needs the permission to {needed}: {_grant(who, namespace)}"


def _unknown(who: str | None, credentials: Credentials) -> str:
    """Why the API server does not know who asks."""
    if credentials == Credentials():
        return (
            "the request had no credentials, or only a certificate: set serviceAccountName of the pod, "
            "or a user in the kubeconfig file."
        )
    if who and credentials.token_file:
        return (
            f"the API server does not accept the token of {who} in {credentials.token_file}: it may have expired, or "
            "the service account may have been deleted or made again; start the pod again."
        )
    return f"the API server does not accept the credentials{f' of {who}' if who else ''}: renew them."


def _grant(who: str | None, namespace: str) -> str:
    """The commands that give the permission."""
    subject = _subject(who) if who else "--serviceaccount=NAMESPACE:NAME"
    return (
        f"kubectl create role {_ROLE} -n {namespace} --verb=get,list,watch --resource={RESOURCE} && "
        f"kubectl create rolebinding {_ROLE} -n {namespace} --role={_ROLE} {subject}"
    )


def _subject(who: str) -> str:
    if who.startswith(_SERVICE_ACCOUNT):
        return f"--serviceaccount={who.removeprefix(_SERVICE_ACCOUNT)}"
    return f"--user={who}"


def _named_in(refusal: str) -> str | None:
    """The user in `… is forbidden: User "system:anonymous" cannot get resource …`."""
    _, found, rest = refusal.partition(' User "')
    name = rest.partition('"')[0]
    return name if found and name and name.isprintable() and " " not in name else None
