"""Everything that is loaded or started late, in one place. Plain data, and the one function that imports by a name that
is not written out.

The registries look names up here. The bundle computes from it which files it carries. `tests/test_imports.py` holds it
against the code: a late import that is missing here fails, and so does an entry that nothing uses.
"""

from __future__ import annotations

import sys

from kedge.light.types import Any

# Registries: a name that a user writes -> `module` or `module:attribute`.
ENGINES = {
    "local": "kedge.engines.local.engine:LocalEngine",
    "container": "kedge.engines.container.engine:ContainerEngine",
    "slurm": "kedge.engines.slurm.engine:SlurmEngine",
    "kubernetes": "kedge.engines.kubernetes.engine:KubernetesEngine",
}
# Built-in plugins are known by a table, not by entry points: most jobs need no look at all installed packages, and no
# package can take the place of these.
PLUGINS = {
    "cmd": "kedge.plugins.cmd:Cmd",
    "git": "kedge.plugins.git:Git",
    "download": "kedge.plugins.download:Download",
    "pvc_storage": "kedge.plugins.storage:PvcStorage",
    "com.microsoft.pai.rest.storage": "kedge.plugins.storage:RestStorage",
    "ssh": "kedge.plugins.ssh:Ssh",
    "tensorboard": "kedge.plugins.tensorboard:Tensorboard",
    "teamwise_storage": "kedge.plugins.storage:TeamwiseStorage",
}
SOURCES = {  # by the kind of an address
    "file": "kedge.resolve.sources.files",
    "http": "kedge.resolve.sources.http",
    "marketplace": "kedge.resolve.sources.marketplace",
}
PUBLIC = {  # the names that `import kedge` offers
    "CannotRun": "kedge.errors:CannotRun",
    "Diagnosis": "kedge.diagnose.model:Diagnosis",
    "InputError": "kedge.errors:InputError",
    "Inputs": "kedge.resolve.model:Inputs",
    "Job": "kedge.spec.model:Job",
    "JobStatus": "kedge.runs.status:JobStatus",
    "KedgeError": "kedge.errors:KedgeError",
    "Plan": "kedge.plan.model:Plan",
    "Problem": "kedge.errors:Problem",
    "Report": "kedge.contract:Report",
    "ResolvedJob": "kedge.resolve.model:ResolvedJob",
    "Run": "kedge.runs.folder:Run",
    "RunInfo": "kedge.runs.folder:RunInfo",
    "TaskSpec": "kedge.contract:TaskSpec",
    "TaskStatus": "kedge.runs.status:TaskStatus",
    "diagnose": "kedge.api:diagnose",
    "load": "kedge.api:load",
    "plan": "kedge.api:plan",
    "run": "kedge.api:run",
    "runs": "kedge.api:runs",
}
ACTIONS = {
    "git": "kedge.runtime.actions.git",
    "download": "kedge.runtime.actions.download",
    "tensorboard": "kedge.runtime.actions.tensorboard",
    "ssh-barrier": "kedge.runtime.ssh.barrier",
    "ssh-server": "kedge.runtime.ssh.server",
}
SSH_COMMANDS = {  # what a task's scripts call, where the image has no OpenSSH
    "ssh": "kedge.runtime.ssh.client:main",
    "scp": "kedge.runtime.ssh.copies:main",
}
FETCH = {  # brings what is new of a run to this machine, by the engine, where no folder is shared
    "kubernetes": "kedge.engines.kubernetes.access.fetching",
    "framework": "kedge.engines.kubernetes.framework.following",  # of the kubernetes engine, by FrameworkController
}
LIVENESS = {  # what the scheduler says of a run, by the engine
    "kubernetes": "kedge.engines.kubernetes.access.liveness:ask_scheduler",
    "framework": "kedge.engines.kubernetes.framework.liveness:ask_scheduler",
    "slurm": "kedge.engines.slurm.liveness:ask_scheduler",
}
INIT_PROGRAMS = {  # of the init phase, by the names that a specification uses
    "frameworkBarrier": "kedge.dropin.cluster.barrier:run",
    "frameworkRetriever": "kedge.dropin.cluster.retriever:run",
    "frameworkParser": "kedge.dropin.task.framework_parser:run",
    "envGenerator": "kedge.dropin.task.env_generator:run",
    "userCommandRender": "kedge.dropin.task.user_command:run",
    "imageChecker": "kedge.dropin.registry.image_checker:run",
    "portChecker": "kedge.dropin.ports.port_checker:run",
}
CONTROLLERS = {  # inside a cluster, by the engine
    "kubernetes": "kedge.engines.kubernetes.in_driver.start:run",
    "slurm": "kedge.engines.slurm.in_allocation.start:run",
}
DRIVERS = {  # what runs around a controller that has a pod of its own, by the engine
    "kubernetes": "kedge.engines.kubernetes.in_driver.program:main",
}
COMMANDS = {
    "run": "kedge.cli.commands.run:command",
    "validate": "kedge.cli.commands.validate:command",
    "plan": "kedge.cli.commands.plan:command",
    "lock": "kedge.cli.commands.lock:command",
    "rerun": "kedge.cli.commands.rerun:command",
    "attach": "kedge.cli.commands.attach:command",
    "ps": "kedge.cli.commands.ps:command",
    "show": "kedge.cli.commands.show:command",
    "logs": "kedge.cli.commands.logs:command",
    "outputs": "kedge.cli.commands.outputs:command",
    "cp": "kedge.cli.commands.cp:command",
    "exec": "kedge.cli.commands.exec:command",
    "ssh": "kedge.cli.commands.ssh:command",
    "wait": "kedge.cli.commands.wait:command",
    "stop": "kedge.cli.commands.stop:command",
    "release": "kedge.cli.commands.release:command",
    "rm": "kedge.cli.commands.rm:command",
    "diagnose": "kedge.cli.commands.diagnose:command",
    "rules": "kedge.cli.commands.rules:command",
    "cache": "kedge.cli.commands.cache:command",
    "bundle": "kedge.cli.commands.bundle:command",
    "schema": "kedge.cli.commands.schema:command",
    "storages": "kedge.cli.commands.storages:command",
    "kubernetes": "kedge.cli.commands.kubernetes:command",
    "config": "kedge.cli.commands.config:command",
    "completion": "kedge.cli.commands.completion:command",
}
# The module that looks names up -> its registry.
REGISTRIES = {
    "kedge": PUBLIC,
    "kedge.engines.registry": ENGINES,
    "kedge.resolve.plugins": PLUGINS,
    "kedge.dropin.task.plugin_steps": PLUGINS,
    "kedge.resolve.document_store": SOURCES,
    "kedge.runtime.actions.program": ACTIONS,
    "kedge.runtime.launch": SSH_COMMANDS,
    "kedge.cli.main": COMMANDS,
    "kedge.runs.copies": FETCH,
    "kedge.runs.liveness": LIVENESS,
    "kedge.dropin.programs": INIT_PROGRAMS,
    "kedge.controller.driver": DRIVERS,
    "kedge.controller.in_cluster": CONTROLLERS,
}

# What a bundle starts besides the supervisor and the init phase: a launcher, and what it loads late.
AGENT_START = (
    "kedge.runtime.agent.launch",
    "kedge.runtime.agent.main",
    "kedge.runtime.agent.run",
    "kedge.runtime.agent.mirror",
)
PREPARE_START = ("kedge.runtime.agent.prepare_pod",)
SERVE_START = ("kedge.engines.kubernetes.access.serve_run",)
CONTROLLER_START = ("kedge.controller.launch", "kedge.controller.in_cluster", "kedge.controller.driver")

# A module -> the modules that it imports inside a function, because they take long to load and are seldom needed.
LATE = {
    "kedge": ("kedge.lazy_modules",),
    "kedge.__main__": ("kedge.cli.main",),
    "kedge.bundle.cache": ("kedge.bundle.assemble",),
    "kedge.cli.new_run": ("kedge.cli.attended_run",),
    "kedge.cli.commands.show": ("kedge.jobs.export",),
    "kedge.cli.commands.plan": ("kedge.jobs.example",),
    "kedge.cli.job_options": ("kedge.spec.units",),
    "kedge.cli.times": ("kedge.spec.units",),
    "kedge.cli.view.plan_text": ("kedge.diagnose.exit_spec.exitspec",),
    "kedge.cli.view.copy_progress": ("kedge.cli.view.progress_bar",),
    "kedge.controller.launch": ("kedge.controller.driver", "kedge.controller.in_cluster"),
    "kedge.controller.__main__": (
        "kedge.keeper",
        "kedge.runs.controller_lock",
        "kedge.engines.registry",
        "kedge.controller.main",
    ),
    "kedge.dropin.cluster.access": ("kedge.dropin.cluster.kubeconfig",),
    "kedge.dropin.net.http_connections": ("kedge.dropin.net.http_tls",),
    "kedge.dropin.task.folder_plugins": ("kedge.dropin.child",),
    "kedge.dropin.task.plugin_steps": ("kedge.plugins.base", "kedge.resolve.plugin_files"),
    "kedge.dropin.launch": ("kedge.dropin.main",),
    "kedge.dropin.specification": ("kedge.dropin.init_spec", "kedge.errors"),
    "kedge.engines.container.api.connection": ("kedge.engines.container.api.client",),
    "kedge.engines.container.engine": ("kedge.engines.container.exec",),
    "kedge.engines.controller.judge": ("kedge.engines.controller.failures",),
    "kedge.engines.controller.time_limits": ("kedge.diagnose.decide.limits",),
    "kedge.engines.local.engine": ("kedge.engines.local.exec", "kedge.engines.local.job"),
    "kedge.engines.registry": (
        "kedge.engines.container.images.image_pins",
        "kedge.engines.installed",
        "kedge.engines.kubernetes.setup",
    ),
    "kedge.engines.kubernetes.access.fetching": (
        "kedge.engines.kubernetes.access.importing",
        "kedge.engines.kubernetes.access.kept_outputs",
        "kedge.engines.kubernetes.access.pod_files",
        "kedge.engines.kubernetes.access.tunnel",
    ),
    "kedge.engines.kubernetes.access.importing": ("kedge.engines.kubernetes.framework.importing",),
    "kedge.engines.kubernetes.api": ("kedge.engines.kubernetes.transport.kubeconfig",),
    "kedge.engines.kubernetes.engine": (
        "kedge.engines.kubernetes.access.exec",
        "kedge.engines.kubernetes.access.requests",
        "kedge.engines.kubernetes.api",
        "kedge.engines.kubernetes.checks",
        "kedge.engines.kubernetes.framework.checks",
        "kedge.engines.kubernetes.framework.manifests",
        "kedge.engines.kubernetes.framework.requests",
        "kedge.engines.kubernetes.framework.submission",
        "kedge.engines.kubernetes.plan_manifests",
        "kedge.engines.kubernetes.submission",
    ),
    "kedge.engines.kubernetes.in_driver.outputs_volume": ("kedge.runs.tree_copy",),
    "kedge.engines.kubernetes.pod_patch_file": ("kedge.spec.yaml",),
    "kedge.engines.slurm.engine": (
        "kedge.engines.slurm.exec",
        "kedge.engines.slurm.in_allocation.start",
        "kedge.engines.slurm.submission",
        "kedge.engines.slurm.requests",
    ),
    "kedge.engines.cluster.task_ends": ("kedge.diagnose.rules.packaged",),
    "kedge.engines.slurm.in_allocation.start": ("kedge.engines.slurm.in_allocation.job",),
    "kedge.jobs.preparation": (
        "kedge.jobs.pins",
        "kedge.jobs.rerun",
        "kedge.jobs.rules",
        "kedge.jobs.site_limits",
        "kedge.jobs.site_rules",
        "kedge.jobs.storages",
    ),
    "kedge.jobs.cluster_runs": ("kedge.engines.registry", "kedge.jobs.engine_choice"),
    "kedge.jobs.runs": ("kedge.engines.registry", "kedge.jobs.cluster_runs"),
    "kedge.jobs.submission": (
        "kedge.jobs.link_keys",
        "kedge.jobs.rules",
        "kedge.jobs.ssh_keys",
        "kedge.jobs.storages",
        "kedge.runs.tree_copy",
    ),
    "kedge.program_guard": ("kedge.processes",),
    "kedge.resolve.steps": ("kedge.resolve.plugin_files",),
    "kedge.resolve.plugins": ("kedge.resolve.plugins_of_others",),
    "kedge.runs.folder": ("kedge.runs.liveness",),
    "kedge.runtime.agent.__main__": ("kedge.runtime.agent.launch",),
    "kedge.runtime.agent.agent": ("kedge.runtime.agent.mirror",),
    "kedge.runtime.agent.keeper": ("kedge.runtime.agent.run", "kedge.runtime.bugs"),
    "kedge.runtime.agent.launch": ("kedge.runtime.agent.main",),
    "kedge.runtime.agent.main": ("kedge.runtime.agent.end_tasks", "kedge.runtime.agent.pod"),
    "kedge.runtime.agent.node_folders": ("kedge.light.hashlib",),
    "kedge.runtime.agent.pod_agent": ("kedge.runtime.agent.pod_code_fetch",),
    "kedge.runtime.agent.run": ("kedge.runtime.agent.pod_agent",),
    "kedge.runtime.agent.supervisor": ("kedge.runtime.main", "kedge.runtime.packed_start"),
    "kedge.runtime.__main__": ("kedge.runtime.launch",),
    "kedge.runtime.launch": (
        "kedge.runtime.setup.environment",
        "kedge.runtime.actions.program",
        "kedge.runtime.join",
        "kedge.runtime.main",
        "kedge.runtime.warm_parent",
        "kedge.runtime.bugs",
        "kedge.lazy_modules",
    ),
    "kedge.runtime.join": ("kedge.runtime.join_input",),
    "kedge.runtime.main": ("kedge.runtime.control", "kedge.runtime.spec_wait"),
    "kedge.runtime.session": ("kedge.runtime.control",),
    "kedge.runtime.attempt": ("kedge.runtime.hold", "kedge.runtime.setup.code_copy"),
    "kedge.runtime.setup.prepare": ("kedge.runtime.setup.ssh_commands",),
    "kedge.runtime.hooks.hook_run": ("kedge.untrusted_values",),
    "kedge.runtime.hooks.retries": ("kedge.runtime.hooks.services",),
    "kedge.runtime.logs.mask": ("kedge.runtime.logs.secret_forms",),
    "kedge.runtime.postmortem.analysis": ("kedge.runtime.postmortem.patterns",),
    "kedge.runtime.postmortem.collect": ("kedge.runtime.postmortem.gpus",),
    "kedge.runtime.postmortem.ending": ("kedge.diagnose.decide.limits", "kedge.runtime.postmortem.analysis"),
    "kedge.runtime.postmortem.patterns": ("kedge.diagnose.rules.source",),
    "kedge.settings.values": ("kedge.settings.files", "kedge.settings.variables"),
    "kedge.spec.libyaml": ("kedge.late_patterns",),
    "kedge.spec.parse": ("kedge.spec.lint.shell",),
    "kedge.spec.schema": ("kedge.spec.violations",),
}

# A module -> the program in its folder that it starts by the path. Such a program stays source in the bundle.
PROGRAMS = {
    "kedge.bundle.assemble": "compile_program.py",
    "kedge.bundle.contents": "install_program.py",
    "kedge.bundle.modules": "import_program.py",
    "kedge.engines.machine.gpus": "nvml.py",
    "kedge.jobs.storage_folders": "storage_look.py",
    "kedge.programs": "program_guard.py",
    "kedge.runtime.actions.fsspec_storages": "fsspec_program.py",
    "kedge.runtime.actions.git": "git_credential.py",
    "kedge.runtime.hooks.script": "report_environment.py",
    "kedge.runtime.postmortem.gpus": "gpu_probe.py",
}

# A module -> the data file in its folder that it reads.
DATA = {
    "kedge.diagnose.exit_spec.exitspec": "exitspec.json",
    "kedge.diagnose.rules.packaged": "compiled.json",
    "kedge.spec.schema": "job.schema.json",
}


def load_place(place: str) -> Any:
    """The module or the attribute that an entry of a registry names. ImportError."""
    module, _, attribute = place.partition(":")
    __import__(module)
    found = sys.modules[module]
    return getattr(found, attribute) if attribute else found
