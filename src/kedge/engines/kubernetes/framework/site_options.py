"""What the options of the engine mean for Frameworks."""

from __future__ import annotations

from kedge.engines.kubernetes.framework.site import FrameworkSite
from kedge.engines.kubernetes.objects import scheduling
from kedge.engines.kubernetes.options import KubernetesOptions

_RUNTIME = "RUNTIME-IMAGE"  # in what is only shown


def site(options: KubernetesOptions, namespace: str) -> FrameworkSite:
    """The site in this namespace. What OpenPAI gives all its pods is opt-in here."""
    usual = FrameworkSite("")
    return FrameworkSite(
        runtime_image=options.image or _RUNTIME,
        namespace=namespace,
        service_account=options.framework_account,
        host_network=options.host_network,
        node_label="",
        node_labels=options.node_labels,
        tolerations=tuple(scheduling.toleration(text) for text in options.tolerations),
        fuse=False,
        capabilities=usual.capabilities if options.privileged else (),
        dropped=usual.dropped if options.privileged else (),
        unconfined=options.privileged,
        log_folder=options.framework_logs or "",
        pull_secrets=tuple(options.pull_secrets),
        pull_policy=options.image_pull_policy or "",
        app_pull_policy="",
        hived=options.hived or "",
        gpu=options.gpu,
        rdma=options.rdma,
    )
