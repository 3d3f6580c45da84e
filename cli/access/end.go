package access

import (
	"cmp"
	"errors"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/output"
)

const again = "the same command again"

// ends are the texts of the reasons for which a session ends, and what a user can do.
var ends = map[oapi.TerminalEndReason]struct{ text, try string }{
	oapi.TerminalEndReasonExited:            {"the program on the node ended", again},
	oapi.TerminalEndReasonClosed:            {"it was closed", again},
	oapi.TerminalEndReasonDisconnected:      {"no client was connected for two minutes", again},
	oapi.TerminalEndReasonSlow:              {"the output was not received in time", again},
	oapi.TerminalEndReasonIdle:              {"nothing was typed or printed for too long", again},
	oapi.TerminalEndReasonEndedByUser:       {"a user of the project ended it", "gpuaas terminal-session list"},
	oapi.TerminalEndReasonEndedByOperator:   {"an operator ended it", "gpuaas terminal-session list"},
	oapi.TerminalEndReasonSignedOut:         {"you have signed out, or your session or key was revoked", "gpuaas login"},
	oapi.TerminalEndReasonUserDisabled:      {"your account is disabled", "contact an administrator"},
	oapi.TerminalEndReasonRightLost:         {"you have no access to the allocation any more, or forwarding is not allowed any more", "gpuaas alloc list"},
	oapi.TerminalEndReasonAllocationEnded:   {"the allocation is not active any more", "gpuaas alloc list"},
	oapi.TerminalEndReasonNodeUnavailable:   {"the node is not reachable or was revoked", "gpuaas alloc why NAME"},
	oapi.TerminalEndReasonConnectFailed:     {"the node was not reached, or rejected the login", again},
	oapi.TerminalEndReasonStreamLost:        {"the connection to the node ended", again},
	oapi.TerminalEndReasonRestarted:         {"the server of the session restarted", again},
	oapi.TerminalEndReasonLost:              {"the server of the session failed", again},
	oapi.TerminalEndReasonUnavailable:       {"the platform could not check your access", again},
	oapi.TerminalEndReasonRecordingFailed:   {"it must be recorded, and the recording could not be stored", again},
	oapi.TerminalEndReasonRecordingFull:     {"it must be recorded, and the recording has its maximum size", again},
	oapi.TerminalEndReasonRecordingRequired: {"the project permits recorded sessions only", "gpuaas terminal NAME"},
}

// endOf is the error of a session that has ended for a reason. It begins with the text of the node, if there is one.
func endOf(reason, text string) error {
	e, listed := ends[oapi.TerminalEndReason(reason)]
	if !listed {
		e.text, e.try = cmp.Or(reason, "the connection was lost"), again
	}
	return &output.CommandError{Message: "the session has ended: " + cmp.Or(text, e.text), Code: cmp.Or(reason, string(oapi.TerminalEndReasonLost)), Try: e.try, Exit: output.ExitFailure}
}

// ended explains why the server has closed a connection.
func ended(err error) error {
	if closed, ok := errors.AsType[websocket.CloseError](err); ok {
		return endOf(closed.Reason, "")
	}
	return endOf("", "")
}
