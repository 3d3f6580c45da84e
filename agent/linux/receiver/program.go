// Package receiver drops packets of a tenant that reach a socket of another user of the node.
//
// nftables knows the user who sends a packet and not the user who receives it. A program at the top control
// group of the node runs when a packet has reached its socket. The rules of nftables write the sender into the
// packet, and the program compares it with the owner of the socket. It sees connections, requests and responses
// over every local address, of TCP, UDP and all other protocols of IP.
package receiver

import (
	"encoding/binary"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// The rules of nftables write these into each packet of a tenant that stays on the node. Priority is a value that
// no other program uses: a mark alone could be one of the site's own. The mark is the uid of the sender. The
// highest bit of the mark allows sockets of users who are no tenants.
const (
	Priority = 0x67707561
	Host     = 1 << 31
	// Unknown is the mark of a sender without an entry in the rules. No socket belongs to it.
	Unknown = 1<<31 - 1
)

// The kernel's numbers of what the program uses.
const (
	offsetMark     = 8  // of the mark in struct __sk_buff
	offsetPriority = 32 // of the priority in struct __sk_buff
	socketUID      = 47 // bpf_get_socket_uid

	load32                    = 0x61
	move64, move64imm, and64  = 0xbf, 0xb7, 0x57
	equal, notEqual, equal64  = 0x15, 0x55, 0x1d
	less, greater, notGreater = 0xa5, 0x25, 0xb5
	anyBit                    = 0x45
	call, exit                = 0x85, 0x95
)

// instruction is one instruction of the kernel's virtual machine.
type instruction struct {
	op       byte
	dst, src byte
	jump     int16
	imm      int32
}

// Returned values of the program.
const drop, accept = 0, 1

// program returns the instructions. Jumps count from the next instruction.
func program() []byte {
	list := []instruction{
		{op: load32, dst: 2, src: 1, jump: offsetPriority},
		{op: notEqual, dst: 2, imm: Priority, jump: 13}, // not from a tenant of this node: accept
		{op: load32, dst: 6, src: 1, jump: offsetMark},  // r6: the mark
		{op: move64, dst: 7, src: 6},
		{op: and64, dst: 7, imm: Host - 1},                 // r7: the uid of the sender
		{op: anyBit, dst: 6, imm: -Host, jump: 2},          // the rules allow the host OS
		{op: less, dst: 7, imm: hostos.MinUID, jump: 6},    // another program has changed the mark: drop
		{op: greater, dst: 7, imm: hostos.MaxUID, jump: 5}, // an unknown sender: drop
		{op: call, imm: socketUID},                         // r0: the uid of the receiver
		{op: equal64, dst: 0, src: 7, jump: 5},             // its own: accept
		{op: less, dst: 0, imm: hostos.MinUID, jump: 1},    // not a tenant
		{op: notGreater, dst: 0, imm: hostos.MaxUID, jump: 1},
		{op: anyBit, dst: 6, imm: -Host, jump: 2}, // the rules allow the host OS: accept
		{op: move64imm, dst: 0, imm: drop},
		{op: exit},
		{op: move64imm, dst: 0, imm: accept},
		{op: exit},
	}
	var code []byte
	for _, i := range list {
		code = append(code, i.op, i.src<<4|i.dst)
		code = binary.NativeEndian.AppendUint16(code, uint16(i.jump)) //nolint:gosec // the bits are copied
		code = binary.NativeEndian.AppendUint32(code, uint32(i.imm))  //nolint:gosec // the bits are copied
	}
	return code
}
