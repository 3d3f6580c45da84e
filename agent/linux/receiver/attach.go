package receiver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// name marks the program in the lists of the kernel.
const name = "gpuaas_tenant"

// IsAttached reports whether this program, and no older one, filters what the sockets below a control group receive.
func IsAttached(group string) (is bool, err error) {
	err = with(group, func(group int, own identity) error {
		current, old, err := attached(group, own)
		is = len(current) > 0
		closeAll(append(current, old...))
		return err
	})
	return is, err
}

// Attach makes the program filter what the sockets below a control group receive. It stays until the control
// group or the host OS ends. Older versions of it are removed after it is in effect.
func Attach(group string) error {
	return with(group, func(group int, own identity) error {
		current, old, err := attached(group, own)
		defer func() { closeAll(append(current, old...)) }()
		if err == nil && len(current) == 0 {
			err = attach(group)
		}
		if err != nil {
			return err
		}
		return detach(group, old)
	})
}

func attach(group int) error {
	own, err := load()
	if err != nil {
		return err
	}
	defer closeAll([]int{own})
	const many = 2                                                                                                          // BPF_F_ALLOW_MULTI: programs of systemd and of others run, too
	if err := bpf(unix.BPF_PROG_ATTACH, &attachment{group: uint32(group), program: uint32(own), flags: many}); err != nil { //nolint:gosec // a descriptor
		return fmt.Errorf("attaching the filter of tenants: %w", err)
	}
	return nil
}

// Detach removes every version of the program from a control group.
func Detach(group string) error {
	return with(group, func(group int, own identity) error {
		current, old, err := attached(group, own)
		all := append(current, old...)
		defer closeAll(all)
		if err != nil {
			return err
		}
		return detach(group, all)
	})
}

func detach(group int, programs []int) error {
	for _, fd := range programs {
		if err := bpf(unix.BPF_PROG_DETACH, &attachment{group: uint32(group), program: uint32(fd)}); err != nil { //nolint:gosec // a descriptor
			return fmt.Errorf("removing an older filter of tenants: %w", err)
		}
	}
	return nil
}

// with opens the control group.
func with(group string, do func(group int, own identity) error) error {
	dir, err := os.Open(group)
	if err != nil {
		return fmt.Errorf("opening the control group: %w", err)
	}
	defer func() { _ = dir.Close() }()
	own, err := ours.get()
	if err != nil {
		return err
	}
	return do(int(dir.Fd()), own)
}

// ours is the identity of this program. It needs one load, which the kernel verifies, in the life of a process.
var ours ownIdentity

type ownIdentity struct {
	mu    sync.Mutex
	is    identity
	loads int
}

func (k *ownIdentity) get() (identity, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.is != (identity{}) {
		return k.is, nil
	}
	k.loads++
	fd, err := load()
	if err != nil {
		return identity{}, err
	}
	defer closeAll([]int{fd})
	k.is, err = about(fd)
	return k.is, err
}

// attached lists the versions of our program in a control group: descriptors of those with the same instructions,
// and of others. The caller closes them.
func attached(group int, own identity) (current, old []int, err error) {
	ids := make([]uint32, 64)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&ids[0])
	q := query{group: uint32(group), ids: address(&ids[0]), count: uint32(len(ids))} //nolint:gosec // a descriptor and a length
	if err := bpf(unix.BPF_PROG_QUERY, &q); err != nil {
		return nil, nil, fmt.Errorf("listing the filters of a control group: %w", err)
	}
	for _, id := range ids[:q.count] {
		fd, err := open(&byID{id: id})
		if errors.Is(err, unix.ENOENT) {
			continue // detached meanwhile
		} else if err != nil {
			return current, old, err
		}
		found, err := about(fd)
		switch {
		case err != nil:
			closeAll([]int{fd})
			return current, old, err
		case found.name != own.name:
			closeAll([]int{fd})
		case found.tag == own.tag:
			current = append(current, fd)
		default:
			old = append(old, fd)
		}
	}
	return current, old, nil
}

// load gives the program to the kernel, which verifies that it ends and reads only the packet.
func load() (int, error) { return loadCode(program()) }

func loadCode(code []byte) (int, error) {
	const (
		controlGroupSocketBuffer = 8 // BPF_PROG_TYPE_CGROUP_SKB
		size                     = 8 // of an instruction
	)
	license, says := []byte("Apache-2.0\x00"), make([]byte, 4096)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&code[0])
	pin.Pin(&license[0])
	pin.Pin(&says[0])
	l := loading{
		kind: controlGroupSocketBuffer, count: uint32(len(code) / size), code: address(&code[0]), license: address(&license[0]), //nolint:gosec // short
		level: 1, logSize: uint32(len(says)), log: address(&says[0]), //nolint:gosec // short
	}
	copy(l.name[:], name)
	fd, err := openCommand(unix.BPF_PROG_LOAD, &l)
	if err != nil {
		line, _, _ := bytes.Cut(bytes.TrimRight(says, "\x00\n"), []byte("\n"))
		return -1, fmt.Errorf("loading the filter of tenants: %w %s", err, line)
	}
	return fd, nil
}

// identity has the values that the kernel stores of a program. The tag is a hash of the instructions.
type identity struct {
	tag  [8]byte
	name [16]byte
}

func about(fd int) (identity, error) {
	var i information
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&i)
	err := bpf(unix.BPF_OBJ_GET_INFO_BY_FD, &inquiry{fd: uint32(fd), size: uint32(unsafe.Sizeof(i)), into: uint64(uintptr(unsafe.Pointer(&i)))}) //nolint:gosec // the kernel's interface
	if err != nil {
		return identity{}, fmt.Errorf("reading a filter: %w", err)
	}
	return identity{i.tag, i.name}, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
