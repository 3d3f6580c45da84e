package home

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sealKey is the length of a home's key: what AES-256-XTS needs.
const sealKey = 64

// seal makes the kernel encrypt all future content of an empty folder. The random key exists only
// in the memory of the kernel and ends with the mount; the content is unreadable after that. The
// error is errors.ErrUnsupported if the kernel cannot encrypt.
func seal(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // read only

	// The kernel wants the key behind its description, in one piece of memory.
	var arg struct {
		unix.FscryptAddKeyArg

		raw [sealKey]byte
	}
	defer clear(arg.raw[:])
	if _, err := rand.Read(arg.raw[:]); err != nil {
		return fmt.Errorf("drawing a key: %w", err)
	}
	arg.Key_spec.Type = unix.FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER
	arg.Raw_size = sealKey
	if err := ioctl(d, unix.FS_IOC_ADD_ENCRYPTION_KEY, unsafe.Pointer(&arg)); err != nil { //nolint:gosec // the kernel's own form
		return unsupported("giving the kernel a key", err)
	}
	policy := unix.FscryptPolicyV2{
		Version:                   unix.FSCRYPT_POLICY_V2,
		Contents_encryption_mode:  unix.FSCRYPT_MODE_AES_256_XTS,
		Filenames_encryption_mode: unix.FSCRYPT_MODE_AES_256_CTS,
		Flags:                     unix.FSCRYPT_POLICY_FLAGS_PAD_32,
	}
	copy(policy.Master_key_identifier[:], arg.Key_spec.U[:])
	if err := ioctl(d, unix.FS_IOC_SET_ENCRYPTION_POLICY, unsafe.Pointer(&policy)); err != nil { //nolint:gosec // the kernel's own form
		return unsupported("sealing a home", err)
	}
	return nil
}

// unseal removes the key of a sealed folder from the kernel. After that the content cannot be read,
// whatever happens to the disk.
func unseal(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // read only
	policy := unix.FscryptGetPolicyExArg{Size: uint64(unsafe.Sizeof(unix.FscryptPolicyV2{}))}
	err = ioctl(d, unix.FS_IOC_GET_ENCRYPTION_POLICY_EX, unsafe.Pointer(&policy)) //nolint:gosec // the kernel's own form
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOTTY):
		return nil // not sealed
	case err != nil:
		return fmt.Errorf("reading how a home is sealed: %w", err)
	}
	v2 := (*unix.FscryptPolicyV2)(unsafe.Pointer(&policy.Policy)) //nolint:gosec // the kernel's own form
	var arg unix.FscryptRemoveKeyArg
	arg.Key_spec.Type = unix.FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER
	copy(arg.Key_spec.U[:], v2.Master_key_identifier[:])
	err = ioctl(d, unix.FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS, unsafe.Pointer(&arg)) //nolint:gosec // the kernel's own form
	if err != nil && !errors.Is(err, unix.ENOKEY) {
		return fmt.Errorf("taking a home's key: %w", err)
	}
	return nil
}

func ioctl(d *os.File, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, d.Fd(), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

func unsupported(what string, err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) {
		return fmt.Errorf("%s: %w", what, errors.ErrUnsupported)
	}
	return fmt.Errorf("%s: %w", what, err)
}
