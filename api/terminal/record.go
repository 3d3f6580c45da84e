package terminal

import (
	"log/slog"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/product/terminal/recording"
)

// The first line of a session with a recording, and lines of one that has none.
const (
	isRecorded  = "This session is recorded.\r\n"
	notRecorded = "This session is not recorded: the recording cannot be stored.\r\n"
	noLonger    = "\r\nThis session is no longer recorded.\r\n"
)

func (x *session) limits() terminal.Limits {
	return x.server.Sessions.Limits(x.row.Tenant, x.row.Project)
}

// mustRecord reports whether the session may not go on without a recording.
func (x *session) mustRecord() bool { return x.limits().Recording == terminal.RecordAlways }

// startRecording begins a recording if the policy demands one, and returns the first line of the session. Without a recording
// that is required, the session does not begin.
func (x *session) startRecording(first size) (line string, err error) {
	limits := x.limits()
	if limits.Recording != terminal.RecordTerminals && limits.Recording != terminal.RecordAlways {
		return "", nil
	}
	r, err := x.server.Recordings.Begin(x.ctx, x.row, recording.Options{
		Columns: first.columns, Rows: first.rows, MaxBytes: limits.RecordingMax, Required: x.mustRecord, Failed: x.recordingFailed,
	})
	if err == nil {
		x.recorder.Store(r)
		return isRecorded, nil
	}
	x.server.Log.WarnContext(x.ctx, "beginning a recording", slog.String("session_id", x.row.ID.String()), slog.Any("err", err))
	if x.mustRecord() {
		x.endWith(terminal.RecordingFailed, nil, "the recording cannot be stored")
		return "", errs.New(errs.Unavailable, "the recording cannot be stored").Because(err)
	}
	return notRecorded, nil
}

// recordingFailed ends a session that must be recorded. Another one continues and states it.
func (x *session) recordingFailed(why recording.Failure) {
	x.server.Log.WarnContext(x.server.base, "a recording has ended before its session", slog.String("session_id", x.row.ID.String()), slog.String("reason", string(why)))
	switch {
	case !x.mustRecord():
		x.output([]byte(noLonger), true)
	case why == recording.Full:
		x.endWith(terminal.RecordingFull, nil, "the recording has its maximum size")
	default:
		x.endWith(terminal.RecordingFailed, nil, "the recording cannot be stored")
	}
}

// emit records output and sends it to the client. Output that must be recorded and is not, is not sent.
func (x *session) emit(p []byte) {
	if r := x.recorder.Load(); r != nil && !r.Output(p) && x.mustRecord() {
		return
	}
	x.output(p, true)
}

// isRecorded reports whether output is recorded.
func (x *session) isRecorded() bool {
	r := x.recorder.Load()
	return r != nil && r.Recording()
}

// hasBegun reports whether the session has begun: only then it has a recording.
func (x *session) hasBegun() bool {
	select {
	case <-x.ready:
		return true
	default:
		return false
	}
}

func (x *session) closeRecording() {
	if r := x.recorder.Load(); r != nil {
		if err := r.Close(); err != nil {
			x.server.Log.WarnContext(x.server.base, "ending a recording", slog.String("session_id", x.row.ID.String()), slog.Any("err", err))
		}
	}
}
