package receiver

import (
	"encoding/binary"
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AttachOther attaches a program of the same name with one more instruction than ours.
func AttachOther(group string) error {
	return with(group, func(group int, _ identity) error {
		own, err := loadCode(append([]byte{move64, 8 | 1<<4, 0, 0, 0, 0, 0, 0}, program()...))
		if err != nil {
			return err
		}
		defer closeAll([]int{own})
		return bpf(unix.BPF_PROG_ATTACH, &attachment{group: uint32(group), program: uint32(own), flags: 2})
	})
}

// Count returns the number of versions of the program that are attached.
func Count(group string) (n int, err error) {
	err = with(group, func(group int, own identity) error {
		current, old, err := attached(group, own)
		n = len(current) + len(old)
		closeAll(append(current, old...))
		return err
	})
	return n, err
}

// Loads returns how often the identity of the program was read by a load.
func Loads() int {
	ours.mu.Lock()
	defer ours.mu.Unlock()
	return ours.loads
}

// Try runs the program on a packet with these fields.
func Try(mark, priority uint32) (uint32, error) {
	own, err := load()
	if err != nil {
		return 0, err
	}
	defer closeAll([]int{own})
	packet, context := make([]byte, 64), make([]byte, 192)
	binary.NativeEndian.PutUint32(context[offsetMark:], mark)
	binary.NativeEndian.PutUint32(context[offsetPriority:], priority)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&packet[0])
	pin.Pin(&context[0])
	test := struct {
		program, result, in, out uint32
		dataIn, dataOut          uint64
		repeat, duration         uint32
		contextIn, contextOut    uint32
		context, _               uint64
	}{program: uint32(own), in: uint32(len(packet)), dataIn: address(&packet[0]), contextIn: uint32(len(context)), context: address(&context[0])}
	if unsafe.Sizeof(test) != 64 {
		return 0, errors.New("the structure has another size than the kernel's")
	}
	err = bpf(unix.BPF_PROG_TEST_RUN, &test)
	return test.result, err
}
