"""Jobs as Framework objects, for sites that run FrameworkController. Pure: no I/O.

site          what a site says about the pods of its frameworks
render        from a plan to the Framework
pod_template  the pods of a role
addons        the secrets and the priority class that stand beside it
progress      what the status of a Framework means
"""
