"""How containers end, and what is lost with them.

container_end  how a container ended; removes it
failures       reports of containers that ended badly or never started
out_of_memory  tells kills for memory apart
memory_kills   notices the kernel's OOM kills
lost_files     files that are gone with their container
"""
