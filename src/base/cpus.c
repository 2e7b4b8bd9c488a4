/* cpus.c: counts the cores that this process may use: the affinity mask, then the cgroup quota. */
#include "base/cpus.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/pool.h"

enum { MAX_CPUS = 8192, MAX_FILE_BYTES = 1 << 20 };

/* The contents of folder/name, or NULL. The caller frees it. */
static char *read_text(const char *folder, const char *name) {
    char *path = mica_path_join(folder, name);
    if (!path) return NULL;
    char *text = NULL;
    size_t n = 0;
    if (mica_file_read(&text, &n, path, MAX_FILE_BYTES, NULL)) text = NULL;
    mica_free(path);
    return text;
}

/* ---- affinity ---- */

typedef union cpu_mask {
    cpu_set_t set;
    unsigned char bytes[MAX_CPUS / 8];
} cpu_mask;

static bool in_mask(const cpu_mask *mask, long cpu) {
    return cpu >= 0 && cpu < MAX_CPUS && CPU_ISSET_S((size_t)cpu, sizeof(*mask), &mask->set);
}

/* Whether a list like "0-1,64" names a CPU of the mask that is below `cpu`. */
static bool has_lower_sibling(const char *list, const cpu_mask *mask, long cpu) {
    while (*list >= '0' && *list <= '9') {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        for (long i = first; i <= last && i < cpu; i++) {
            if (in_mask(mask, i)) return true;
        }
        list = *end == ',' ? end + 1 : end;
    }
    return false;
}

/* A core counts once, for the lowest of its hardware threads in the mask. */
static bool is_first_of_core(const char *cpu_folder, const cpu_mask *mask, long cpu) {
    char name[64];
    snprintf(name, sizeof(name), "cpu%ld/topology/thread_siblings_list", cpu);
    char *list = read_text(cpu_folder, name);
    bool is_first = !list || !has_lower_sibling(list, mask, cpu);
    mica_free(list);
    return is_first;
}

int mica_cores_allowed(const char *cpu_folder) {
    cpu_mask mask;
    memset(&mask, 0, sizeof(mask));
    if (sched_getaffinity(0, sizeof(mask), &mask.set)) return 1;
    int n = 0;
    for (long cpu = 0; cpu < MAX_CPUS; cpu++) {
        n += in_mask(&mask, cpu) && is_first_of_core(cpu_folder, &mask, cpu);
    }
    return n ? n : 1;
}

/* ---- cgroups ---- */

static int least_limit(int a, int b) {
    if (a == 0 || b == 0) return a + b;
    return a < b ? a : b;
}

static int quota_cores(double quota, double period) {
    if (!(quota > 0.0) || !(period > 0.0)) return 0;
    double cores = quota / period;
    return cores >= MAX_CPUS ? 0 : (int)cores + ((double)(int)cores < cores);
}

/* cpu.max is "max 100000" or "150000 100000". */
static int cores_v2(const char *folder) {
    char *text = read_text(folder, "cpu.max");
    double quota = 0.0, period = 0.0;
    bool is_limited = text && sscanf(text, "%lf %lf", &quota, &period) == 2;
    mica_free(text);
    return is_limited ? quota_cores(quota, period) : 0;
}

/* A quota of -1 is none. */
static int cores_v1(const char *folder) {
    char *quota = read_text(folder, "cpu.cfs_quota_us");
    char *period = read_text(folder, "cpu.cfs_period_us");
    int cores = quota && period ? quota_cores(strtod(quota, NULL), strtod(period, NULL)) : 0;
    mica_free(quota);
    mica_free(period);
    return cores;
}

/* The least limit of a group and all groups above it. Inside a container the path may not exist
 * below our root; then what counts is the root itself. */
static int cores_on_path(const char *root, const char *path, int (*cores_of)(const char *)) {
    char *folder = mica_asprintf("%s%s", root, path);
    if (!folder) return 0;
    int limit = 0;
    size_t n_root = strlen(root);
    for (;;) {
        limit = least_limit(limit, cores_of(folder));
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < n_root) break;
        *slash = '\0';
    }
    mica_free(folder);
    return limit;
}

static bool names_controller(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *p = list; p; p = strchr(p, ','), p = p ? p + 1 : NULL) {
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == '\0')) return true;
    }
    return false;
}

/* One line of /proc/self/cgroup: "id:controllers:path", without controllers for version 2. */
static int cores_of_line(const char *root, char *line) {
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) return 0;
    controllers++;
    *path++ = '\0';
    if (strcmp(path, "/") == 0) path++;
    if (!*controllers) return cores_on_path(root, path, cores_v2);
    if (!names_controller(controllers, "cpu")) return 0;
    char *mount = mica_path_join(root, "cpu");
    int limit = mount ? cores_on_path(mount, path, cores_v1) : 0;
    mica_free(mount);
    return limit;
}

int mica_cgroup_cores(const char *cgroup_root, const char *membership) {
    char *text = NULL;
    size_t n = 0;
    if (mica_file_read(&text, &n, membership, MAX_FILE_BYTES, NULL)) return 0;
    int limit = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        limit = least_limit(limit, cores_of_line(cgroup_root, line));
    }
    mica_free(text);
    return limit;
}

int mica_default_threads(void) {
    int cores = mica_cores_allowed("/sys/devices/system/cpu");
    return least_limit(cores, mica_cgroup_cores("/sys/fs/cgroup", "/proc/self/cgroup"));
}
