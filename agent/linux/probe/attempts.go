package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// InsideCommand is the command of the agent that a probe's session runs. It reads the attempts from
// standard input and writes the outcomes to standard output.
const InsideCommand = "probe-inside"

// Attempts lists what a probe tries as the tenant.
type Attempts struct {
	Devices []string `json:"devices"` // to open
	Folders []string `json:"folders"` // to list
	Files   []string `json:"files"`   // to see
	Sockets []string `json:"sockets"` // to connect to
	Dials   []string `json:"dials"`   // host:port to connect to
	// Mounts are folders of stored objects: to list, and to write to.
	Mounts []string `json:"mounts,omitempty"`
	// Foreign lists those of the attempts that concern another tenant. The tenant reads the results, so Label replaces them.
	Foreign []string `json:"-"`
}

// Label returns the name of a result without the account or the port of another tenant.
func (a Attempts) Label(name string) string {
	kind, of, _ := strings.Cut(name, ":")
	if i := slices.Index(a.Foreign, of); i >= 0 {
		return fmt.Sprintf("%s:%d of others", kind, i+1)
	}
	return name
}

// Findings contains the results of the attempts: "ok", or the name of the error.
type Findings struct {
	UID        int               `json:"uid"`
	Groups     []int             `json:"groups"`
	Cgroup     string            `json:"cgroup"`
	Strangers  int               `json:"strangers"` // visible processes of others
	Namespaces string            `json:"namespaces"`
	Devices    map[string]string `json:"devices"`
	Folders    map[string]string `json:"folders"`
	Files      map[string]string `json:"files"`
	Sockets    map[string]string `json:"sockets"`
	Dials      map[string]string `json:"dials"`
	Mounts     map[string]string `json:"mounts,omitempty"` // whether the folder can be listed
	Writes     map[string]string `json:"writes,omitempty"` // whether a file can be written, read back and removed
	Home       string            `json:"home"`             // whether it can be written to
	Loopback   string            `json:"loopback"`         // whether the tenant reaches its own socket
	Own        string            `json:"own"`              // the address of that socket, which is open until the input ends
	Forwards   map[string]string `json:"-"`                // what the connection of the session reaches
}

// maxRequest is far above the length of a list of attempts.
const maxRequest = 4 << 20

// Inside executes the attempts in the session that it runs in, with the rights of the tenant, and writes
// the findings.
func Inside(in io.Reader, out io.Writer) error {
	var a Attempts
	if err := json.NewDecoder(io.LimitReader(in, maxRequest)).Decode(&a); err != nil {
		return fmt.Errorf("reading the probe request: %w", err)
	}
	groups, err := os.Getgroups()
	if err != nil {
		return fmt.Errorf("reading groups: %w", err)
	}
	own, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of a process that lives for one answer
	if err != nil {
		return fmt.Errorf("opening a socket: %w", err)
	}
	defer own.Close() //nolint:errcheck // its end is the end of the process
	f := Findings{
		UID: os.Getuid(), Groups: groups, Cgroup: ownCgroup(), Strangers: strangers(), Namespaces: newNamespace(), Home: writes(os.Getenv("HOME")),
		Devices: tryAll(a.Devices, opens), Folders: tryAll(a.Folders, lists), Files: tryAll(a.Files, sees), Sockets: tryAll(a.Sockets, connects("unix")),
		Mounts: tryAll(a.Mounts, inTime(lists)), Writes: tryAll(a.Mounts, inTime(writesBack)),
		Dials: tryAll(a.Dials, connects("tcp")), Loopback: outcome(connects("tcp")(own.Addr().String())), Own: own.Addr().String(),
	}
	if err := json.NewEncoder(out).Encode(f); err != nil {
		return fmt.Errorf("writing the findings: %w", err)
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// tryAll tries all at once, because an attempt that nothing responds to lasts dialWithin.
func tryAll(names []string, try func(string) error) map[string]string {
	found := make(map[string]string, len(names))
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, name := range names {
		all.Go(func() {
			got := outcome(try(name))
			mu.Lock()
			defer mu.Unlock()
			found[name] = got
		})
	}
	all.Wait()
	return found
}

// outcome returns the name of an error as errno(3) lists it.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return unix.ErrnoName(errno)
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "ETIMEDOUT"
	}
	return err.Error()
}

func opens(name string) error {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func lists(name string) error {
	_, err := os.ReadDir(name)
	return err
}

func sees(name string) error {
	_, err := os.Stat(name)
	return err
}

// dialWithin is enough for an address on this node, or for one that rejects at once.
const dialWithin = 500 * time.Millisecond

func connects(network string) func(string) error {
	return func(address string) error {
		c, err := net.DialTimeout(network, address, dialWithin) //nolint:noctx // of a process that lives for one answer
		if err != nil {
			return err
		}
		return c.Close()
	}
}

// mountWithin limits an attempt on stored objects. Storage that is away responds with an error after a minute.
const mountWithin = 8 * time.Second

// inTime gives up an attempt that does not end. It ends with the process.
func inTime(try func(string) error) func(string) error {
	return func(name string) error {
		ended := make(chan error, 1)
		go func() { ended <- try(name) }()
		select {
		case err := <-ended:
			return err
		case <-time.After(mountWithin):
			return unix.ETIMEDOUT
		}
	}
}

// writesBack writes a file, reads it back and removes it. Where nothing may be written it returns the error of that.
func writesBack(dir string) error {
	file, err := os.CreateTemp(dir, "gpuaas-probe-")
	if err != nil {
		return err
	}
	const text = "a probe of the node, which removes this file"
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err == nil {
		var back []byte
		if back, err = os.ReadFile(file.Name()); err == nil && string(back) != text {
			err = errors.New("another content")
		}
	}
	return errors.Join(err, os.Remove(file.Name()))
}

func writes(dir string) string {
	file, err := os.CreateTemp(dir, ".gpuaas-probe-")
	if err != nil {
		return outcome(err)
	}
	err = os.Remove(file.Name()) //nolint:gosec // made a line above, with the tenant's own rights
	return outcome(errors.Join(file.Close(), err))
}

// ownCgroup is the group of the unified hierarchy.
func ownCgroup() string {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return outcome(err)
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path
		}
	}
	return ""
}

// strangers counts the visible processes of other users.
func strangers() (count int) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return -1
	}
	for _, dir := range dirs {
		if _, err := strconv.Atoi(filepath.Base(dir)); err != nil {
			continue
		}
		info, err := os.Stat(dir)
		if err != nil {
			continue // it has ended
		}
		if uid, _ := hostos.OwnerOf(info); uid != os.Getuid() {
			count++
		}
	}
	return count
}

// newNamespace tries to become root of a user namespace, which would give access to far more of the
// kernel.
func newNamespace() string {
	cmd := exec.Command("/usr/bin/true") //nolint:noctx // ends at once
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	return outcome(cmd.Run())
}
