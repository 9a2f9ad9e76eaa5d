"""Kubernetes manifests without a cluster: builds kustomizations (resources, images, ConfigMaps of files
and JSON patches, which is all that ours use), and checks objects against the typed models of the
Python client."""

import copy
import os
import re

import kubernetes.client
import yaml

# Kinds whose model has another name. Debian's client has v2 as the last beta of it.
MODELS = {("autoscaling/v2", "HorizontalPodAutoscaler"): "V2beta2HorizontalPodAutoscaler"}


def build(directory):
    """The objects of a kustomization."""
    with open(f"{directory}/kustomization.yaml", encoding="utf-8") as file:
        kustomization = yaml.safe_load(file)
    known = {"apiVersion", "kind", "resources", "configMapGenerator", "generatorOptions", "images",
             "patches"}
    if set(kustomization) - known:
        raise ValueError(f"{directory}: {set(kustomization) - known} is not known here")
    objects = []
    for resource in kustomization.get("resources", []):
        path = os.path.normpath(f"{directory}/{resource}")
        if os.path.isdir(path):
            objects += build(path)
        else:
            with open(path, encoding="utf-8") as file:
                objects += [copy.deepcopy(one) for one in yaml.safe_load_all(file)]
    for generator in kustomization.get("configMapGenerator", []):
        data = {}
        for name in generator["files"]:
            with open(f"{directory}/{name}", encoding="utf-8") as file:
                data[name] = file.read()
        objects.append({"apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {"name": generator["name"]}, "data": data})
    for image in kustomization.get("images", []):
        for container in containers_of(objects):
            if container["image"] == image["name"]:
                container["image"] = f"{image.get('newName', image['name'])}:{image['newTag']}"
    for patch in kustomization.get("patches", []):
        target = [one for one in objects if one["kind"] == patch["target"]["kind"] and
                  one["metadata"]["name"] == patch["target"]["name"]]
        if len(target) != 1:
            raise ValueError(f"{directory}: the target {patch['target']} is there {len(target)} times")
        for operation in yaml.safe_load(patch["patch"]):
            apply(operation, target[0])
    return objects


def apply(operation, thing):
    """An operation of a JSON patch (RFC 6902): add or replace."""
    *way, last = operation["path"].strip("/").split("/")
    for step in way:
        thing = thing[int(step)] if isinstance(thing, list) else thing[step]
    if operation["op"] == "replace" and last not in thing:
        raise ValueError(f"{operation['path']}: there is nothing to replace")
    if operation["op"] not in ("add", "replace"):
        raise ValueError(f"{operation['op']}: not known here")
    thing[last] = operation["value"]


def pod_of(thing):
    """The pod specification in an object; None: it has none."""
    return thing.get("spec", {}).get("template", {}).get("spec")


def containers_of(objects):
    for thing in objects:
        pod = pod_of(thing)
        if pod:
            yield from pod.get("initContainers", []) + pod["containers"]


def check(thing):
    """Refuses fields that the kind does not have, lacks that it needs, and values of other types."""
    group, _, version = thing["apiVersion"].rpartition("/")
    name = MODELS.get((thing["apiVersion"], thing["kind"]), version.capitalize() + thing["kind"])
    problems = []
    _check_model(thing, name, thing["kind"], problems)
    if problems:
        raise ValueError("\n".join(problems))


def _check_model(value, name, where, problems):
    model = getattr(kubernetes.client, name)
    if not isinstance(value, dict):
        problems.append(f"{where}: is {value!r}, must be a {name}")
        return
    names = {json: attribute for attribute, json in model.attribute_map.items()}
    for key in value:
        if key not in names:
            problems.append(f"{where}.{key}: {name} has no such field")
        else:
            _check(value[key], model.openapi_types[names[key]], f"{where}.{key}", problems)
    # The model refuses what must be there and is not.
    given = {names[key]: one for key, one in value.items() if key in names}
    try:
        model(**given)
    except ValueError as error:
        problems.append(f"{where}: {error}")


def _check(value, kind, where, problems):
    if match := re.fullmatch(r"list\[(.*)\]", kind):
        if not isinstance(value, list):
            problems.append(f"{where}: must be a list")
            return
        for i, one in enumerate(value):
            _check(one, match[1], f"{where}[{i}]", problems)
    elif match := re.fullmatch(r"dict\(str, (.*)\)", kind):
        for key, one in value.items():
            _check(one, match[1], f"{where}.{key}", problems)
    elif kind in ("str", "int", "bool", "float", "object", "datetime"):
        kinds = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object,
                 "datetime": str}
        if not isinstance(value, kinds[kind]) or (kind == "int" and isinstance(value, bool)):
            problems.append(f"{where}: is {value!r}, must be {kind}")
    else:
        _check_model(value, kind, where, problems)
