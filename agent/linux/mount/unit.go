// Package mount shows stored objects as folders in the homes of tenants: a unit of systemd for each mount runs rclone as
// the tenant, in a slice of its own. The slice of the tenant opens /dev/fuse to none of its programs.
//
// The package reads nothing below a mount: a mount whose storage is away, or whose rclone a tenant has stopped, may never
// respond.
package mount

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/protocol"
)

// Dir contains a folder for each uid with mounts: what was mounted, and the configuration of rclone with the access key.
// The folder is in memory, and ends with a restart of the host OS, as the mounts do.
const Dir = "/run/gpuaas/mounts"

func dirOf(uid int) string         { return filepath.Join(Dir, strconv.Itoa(uid)) }
func specFile(uid int) string      { return filepath.Join(dirOf(uid), "spec.json") }
func configFile(uid, n int) string { return filepath.Join(dirOf(uid), strconv.Itoa(n)+".conf") }
func unitName(uid, n int) string   { return fmt.Sprintf("gpuaas-mount-%d-%d.service", uid, n) }
func sliceName(uid int) string     { return fmt.Sprintf("gpuaas-mounts-%d.slice", uid) }
func unitFile(name string) string  { return filepath.Join(hostos.RunUnitDir, name) }
func homeDir(name string) string   { return filepath.Join(hostos.HomesDir, name, "data/home") }
func point(name, at string) string { return filepath.Join(homeDir(name), at) }
func cachesDir(name string) string { return filepath.Join(hostos.HomesDir, name, "data/mounts") }
func cacheDir(name string, n int) string {
	return filepath.Join(cachesDir(name), strconv.Itoa(n))
}

// cacheGroup passes the folder of the caches, which is in the image of the home and below its quota. It is the group nogroup,
// which exists on every host OS and which no tenant has. The tenant would otherwise lead rclone out of the image by a link,
// because rclone has its uid and the folders of the host OS.
const cacheGroup = 65534

const (
	// cacheShare is the part of a home, in percent, that the caches of all mounts may fill. rclone removes files that
	// are uploaded, so files that wait for their upload may exceed it.
	cacheShare = 25
	// leastCache is enough for the upload of small files.
	leastCacheMiB = 64
	// memoryOfOne and tasksOfOne are a mount's. rclone uses 16 MiB for each open file.
	memoryOfOneMiB = 1024
	tasksOfOne     = 512
	// configMode lets the tenant's group read, and its owner is root: the tenant changes nothing.
	configMode = 0o440
	// restartAfter is the pause before a mount that ended is made again. It has no limit of attempts, because storage
	// that is away does not end an allocation.
	restartAfter = 10
)

// Options describe one unit. All text is from a checked task.
type Options struct {
	Name     string
	UID      int
	Number   int
	Endpoint string
	Bucket   string
	Mount    protocol.Mount
	CacheMiB int64
}

// Config returns the configuration of rclone with the access key.
func Config(endpoint string, k protocol.MountKey) string {
	return fmt.Sprintf("[s]\ntype = s3\nprovider = Other\nenv_auth = false\nendpoint = %s\naccess_key_id = %s\nsecret_access_key = %s\nregion = us-east-1\n"+
		"force_path_style = true\nno_check_bucket = true\n", endpoint, k.AccessKeyID, k.Secret)
}

// Args returns the arguments of rclone without those that belong to a user: its configuration, its cache, the mount
// point. An outage of the storage is an I/O error after a minute, and no program waits for ever.
func Args(bucket string, m protocol.Mount, cacheMiB int64) []string {
	args := []string{
		"--vfs-cache-mode=writes", fmt.Sprintf("--vfs-cache-max-size=%dM", cacheMiB), "--vfs-cache-max-age=1h", "--vfs-cache-poll-interval=15s",
		"--vfs-write-back=1s", "--dir-cache-time=10s", "--poll-interval=0", "--attr-timeout=1s",
		"--umask=077", "--use-server-modtime", "--buffer-size=4M", "--vfs-read-chunk-size=16M", "--transfers=4", "--devname=gpuaas",
		"--contimeout=5s", "--timeout=30s", "--low-level-retries=3", "--retries=1", "--stats=0", "--log-level=NOTICE",
	}
	if m.ReadOnly {
		args = append(args, "--read-only")
	}
	// The slash at the end prevents a request for a file of that name, which a start without the storage waits for.
	return append(args, "s:"+strings.TrimSuffix(bucket+"/"+m.Path, "/")+"/")
}

var endpointText = regexp.MustCompile(`^https?://[A-Za-z0-9.:\[\]-]+$`)

// checkEndpoint rejects an endpoint that could be more than a URL in a configuration.
func checkEndpoint(s protocol.Storage) error {
	host, _ := s.Address()
	if _, err := netip.ParseAddr(host); host == "" || !endpointText.MatchString(s.Endpoint) || strings.Contains(host, ":") && err != nil {
		return fmt.Errorf("%q is no URL of an S3 endpoint", s.Endpoint)
	}
	return nil
}

// Unit returns the unit of one mount. It has no option that creates a namespace, because the mount must be that of the
// host OS, and none that implies NoNewPrivileges=, because fusermount3 mounts with the rights of root. What it can do as
// root is limited by the capabilities, and it mounts only on a folder that the tenant may write to.
//
// A mount point that is a link leads to another folder of the host OS. The unit fails then, because the mount table names
// the folder that the link leads to.
//
// rclone sees the folders and the processes of the host OS, which a session of the tenant does not. The tenant has no
// CAP_WAKE_ALARM, so the kernel rejects its access to a process that has it: to its memory, its environment, its
// descriptors and /proc/PID/root. The capability itself only sets timers.
func Unit(o Options) string {
	at := quote(point(o.Name, o.Mount.At))
	var exec strings.Builder
	exec.WriteString(string(hostos.Rclone) + " mount --config=" + configFile(o.UID, o.Number) + " " + quote("--cache-dir="+cacheDir(o.Name, o.Number)))
	for _, arg := range Args(o.Bucket, o.Mount, o.CacheMiB) {
		exec.WriteString(" " + quote(arg))
	}
	exec.WriteString(" " + at)
	release := "-" + string(hostos.Fusermount) + " -u -z -q " + at
	return fmt.Sprintf(`# Written by gpuaas-agent.
[Unit]
Description=Stored objects of tenant %s, mount %d
StartLimitIntervalSec=0
[Service]
Type=notify
User=%d
Group=%[3]d
SupplementaryGroups=%[11]d
Slice=%[4]s
Environment=HOME=%s
WorkingDirectory=/
ExecStartPre=%[6]s
ExecStartPre=%s -p -m 0700 -- %s
ExecStart=%s
ExecStartPost=%[12]s -qF %[13]s /proc/self/mountinfo
ExecStopPost=%[6]s
Restart=always
RestartSec=%[10]d
TimeoutStartSec=40
TimeoutStopSec=10
UMask=0077
DevicePolicy=closed
DeviceAllow=/dev/fuse rw
CapabilityBoundingSet=CAP_SYS_ADMIN CAP_SETUID CAP_SETGID CAP_DAC_READ_SEARCH CAP_WAKE_ALARM
AmbientCapabilities=CAP_WAKE_ALARM
KeyringMode=private
LimitCORE=0
LimitNOFILE=16384
OOMPolicy=stop
`, o.Name, o.Number, o.UID, sliceName(o.UID), cacheDir(o.Name, o.Number), release, hostos.Mkdir, at, exec.String(), restartAfter, cacheGroup, hostos.Grep, quote(" "+point(o.Name, o.Mount.At)+" "))
}

// Slice returns the slice of all mounts of a tenant.
func Slice(uid, mounts, cpuWeight int) string {
	if cpuWeight == 0 {
		cpuWeight = 100
	}
	return fmt.Sprintf("# Written by gpuaas-agent.\n[Unit]\nDescription=Mounts of stored objects of uid %d\n[Slice]\nCPUWeight=%d\nMemoryMax=%dM\nMemorySwapMax=0\nTasksMax=%d\n",
		uid, cpuWeight, memoryOfOneMiB*mounts, tasksOfOne*mounts)
}

// quote returns an argument as systemd reads it: nothing of it is a variable, a specifier or the end of the argument.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`).Replace(text) + `"`
}
