package receiver

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The forms of the attributes of bpf(2) that this package uses. The kernel reads the rest as zero.
type (
	loading struct {
		kind, count    uint32
		code, license  uint64
		level, logSize uint32
		log            uint64
		_, _           uint32 // version, flags
		name           [16]byte
		_, _           uint32 // device, type of attachment
	}
	attachment struct{ group, program, _, flags uint32 }
	query      struct {
		group, _, _, _ uint32 // kind, flags
		ids            uint64
		count, _       uint32
	}
	byID    struct{ id, _, _ uint32 }
	inquiry struct {
		fd, size uint32
		into     uint64
	}
	information struct {
		kind, id                  uint32
		tag                       [8]byte
		jitedSize, translatedSize uint32
		jited, translated, loaded uint64
		owner, maps               uint32
		mapIDs                    uint64
		name                      [16]byte
	}
)

// bpf calls the kernel. The attribute stays in its place during the call. Addresses in it must be pinned: the
// compiler does not see them.
func bpf[T any](command int, attribute *T) error {
	_, err := openCommand(command, attribute)
	return err
}

func open(by *byID) (int, error) {
	fd, err := openCommand(unix.BPF_PROG_GET_FD_BY_ID, by)
	if err != nil {
		return -1, fmt.Errorf("opening a filter: %w", err)
	}
	return fd, nil
}

func openCommand[T any](command int, attribute *T) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(unsafe.Pointer(attribute)), unsafe.Sizeof(*attribute)) //nolint:gosec // the kernel's interface
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// address returns the address of a pinned value.
func address[T any](of *T) uint64 { return uint64(uintptr(unsafe.Pointer(of))) } //nolint:gosec // the kernel's interface
