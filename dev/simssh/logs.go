package simssh

import (
	"fmt"

	"github.com/gliderlabs/ssh"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/protocol"
)

// note writes a line about a login to the journal of the simulated node, as sshd does.
func (s *Server) note(session ssh.Session, what string) {
	if err := sim.Log(s.StateDir, protocol.LogSSHD, session.User(), fmt.Sprintf("session %s, from %s", what, session.RemoteAddr())); err != nil {
		s.Log.WarnContext(session.Context(), "journal of the simulated node not written", "component", "simssh", "err", err)
	}
}
