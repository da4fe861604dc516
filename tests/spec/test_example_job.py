"""A distributed job that uses most of the protocol: all types of prerequisites, anchors, merges, a deployment."""

from __future__ import annotations

from kedge.spec.model import Auth, Completion
from kedge.spec.parse import parse

JOB = """\
protocolVersion: 2
name: flowers_ps
type: job
version: 1.0
contributor: Carol
description: flower classification with a parameter server
prerequisites:
  - protocolVersion: 2
    name: tf_image
    type: dockerimage
    version: latest
    contributor: Carol
    description: python and tensorflow
    uri: example/tensorflow
    auth:
      username: carol
      password: <% $secrets.registry_password %>
      registryuri: registry.example.org
  - {protocolVersion: 2, name: flowers_model, type: output, version: latest, uri: "hdfs://10.0.0.1:9000/flowers"}
  - {protocolVersion: 2, name: cnn, type: script, contributor: dave, version: 84820935288c, uri: example.org/dave/cnn}
  - {protocolVersion: 2, name: flowers, type: data, version: latest, uri: ["https://example.org/flowers.tar.gz"]}
parameters: {model: resnet20, batchsize: 32}
secrets: {registry_password: password, git_token: cGFzc3dvcmQ=}
jobRetryCount: 1
taskRoles:
  worker: &role
    instances: 1
    completion: {minFailedInstances: 1, minSucceededInstances: 1}
    taskRetryCount: 0
    dockerImage: tf_image
    data: flowers
    output: flowers_model
    script: cnn
    extraContainerOptions: {shmMB: 64}
    resourcePerInstance: {cpu: 2, memoryMB: 16384, gpu: 4, ports: {ssh: 1, http: 1}}
    commands:
      - cd script_<% $script.name %>
      - >
        python train.py --job=worker
        --ps=$PAI_TASK_ROLE_ps_server_HOST_LIST --workers=$PAI_TASK_ROLE_worker_HOST_LIST
        --data=$PAI_WORK_DIR/data_<% $data.name %> --model=<% $parameters.model %>
  ps_server:
    <<: *role
    completion: {minFailedInstances: 1, minSucceededInstances: -1}
    resourcePerInstance: {cpu: 2, memoryMB: 8192, gpu: 0, ports: {ssh: 1, http: 1}}
    commands:
      - cd script_<% $script.name %>
      - python train.py --job=ps --batch=<% $parameters.batchsize %>
deployments:
  - name: prod
    version: 1.0
    taskRoles:
      worker:
        preCommands: &fetch
          - wget <% $data.uri[0] %> -P data_<% $data.name %>
          - >
            git clone https://<% $script.contributor %>:<% $secrets.git_token %>@<% $script.uri %>
            script_<% $script.name %> && git checkout <% $script.version %>
      ps_server:
        preCommands: *fetch
        postCommands: [hdfs dfs -cp output_<% $output.name %> <% $output.uri %>]
defaults: {deployment: prod}
"""


def test_it_is_accepted() -> None:
    job = parse(JOB)
    assert (job.name, job.version, job.job_retry_count, job.active_deployment) == ("flowers_ps", "1.0", 1, "prod")
    assert [item.type for item in job.prerequisites] == ["dockerimage", "output", "script", "data"]
    password = "<% $secrets.registry_password %>"
    assert job.prerequisites[0].auth == Auth("carol", password, "registry.example.org")
    assert job.inert == ()


def test_the_second_role_differs_only_in_the_keys_that_it_overrides() -> None:
    worker, ps = (parse(JOB).task_roles[name] for name in ("worker", "ps_server"))
    assert (worker.completion, ps.completion) == (Completion(1, 1), Completion(1, -1))
    assert (worker.resources.gpu, ps.resources.gpu, ps.resources.memory_mb) == (4, 0, 8192)
    assert (ps.data, ps.script, ps.output, ps.shm_mb) == ("flowers", "cnn", "flowers_model", 64)
    assert ps.commands[1] == "python train.py --job=ps --batch=<% $parameters.batchsize %>"


def test_the_deployment_shares_its_commands() -> None:
    prod = parse(JOB).deployments["prod"]
    assert prod["worker"].pre_commands == prod["ps_server"].pre_commands
    assert len(prod["worker"].pre_commands) == 2
    assert prod["worker"].post_commands == ()
    assert prod["ps_server"].post_commands == ("hdfs dfs -cp output_<% $output.name %> <% $output.uri %>",)


def test_marks_lead_through_aliases_to_the_original_text() -> None:
    source = parse(JOB).source
    path = ("deployments", 0, "taskRoles", "ps_server", "preCommands", 0)
    line = JOB.splitlines()[source.marks[path].line - 1]
    assert line.strip() == "- wget <% $data.uri[0] %> -P data_<% $data.name %>"
    assert source.marks[("taskRoles", "ps_server", "data")].line == source.marks[("taskRoles", "worker", "data")].line
