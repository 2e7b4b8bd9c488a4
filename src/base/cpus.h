/* cpus.h: how many threads the machine gives us; the parts of mica_default_threads. */
#ifndef MICA_BASE_CPUS_H
#define MICA_BASE_CPUS_H

/* Physical cores of which the affinity mask allows at least one hardware thread; at least 1.
 * `cpu_folder` is /sys/devices/system/cpu; where it says nothing each hardware thread counts. */
int mica_cores_allowed(const char *cpu_folder);

/* The CPU quota of the process's cgroups in cores, rounded up; 0: no limit. Version 2 (cpu.max) and
 * version 1 (cpu.cfs_quota_us). `cgroup_root` is /sys/fs/cgroup, `membership` /proc/self/cgroup. */
int mica_cgroup_cores(const char *cgroup_root, const char *membership);

#endif
