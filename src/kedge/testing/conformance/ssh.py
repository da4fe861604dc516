"""ssh between the tasks of a job, whatever the image has."""

from __future__ import annotations

from kedge.testing.conformance.case import ConformanceCase

# A task ends only when the other one is done with its server.
_COMMANDS = """\
other=$((1 - PAI_TASK_INDEX))
ssh task_role-$other 'echo "in $PAI_TASK_INDEX"; cat' < /dev/null
echo copied | ssh taskrole-$other 'cat > copy'
scp -q task_role-$other:copy here
cat here
ssh task_role-$other 'exit 7' || echo "code $?"
ssh task_role-9 true 2> /dev/null || echo "code $?"
ssh task_role-$other 'touch done'
until [ -e done ]; do sleep 0.1; done
"""
_PLUGIN = {"plugin": "ssh", "parameters": {"jobssh": True, "sshbarrier": True}}
_RESOURCES = {"cpu": 1, "memoryMB": 512, "gpu": 0}

BEHAVIOURS = {
    "ssh and scp reach the other tasks, by both names of a role": ConformanceCase(
        _COMMANDS,
        {"task_role": {"instances": 2, "resourcePerInstance": _RESOURCES}},
        {"extras": {"com.microsoft.pai.runtimeplugin": [_PLUGIN]}},
        logs={f"task_role-{index}": f"in {1 - index}\ncopied\ncode 7\ncode 255\n" for index in (0, 1)},
    ),
}
