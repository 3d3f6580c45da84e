package helper

import (
	"errors"

	"github.com/gpuaas/gpuaas/agent/runner"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Protocol is the version of the messages between the two halves. They are one
// binary; after an update one of them may run the build before for a moment.
const Protocol = 4

// The calls of the network process.
const (
	callHello          = "hello"
	callReceive        = "take"
	callInspect        = "look"
	callPendingResults = "untold"
	callAckResult      = "told"
	callUpdateTrust    = "believe"
	callUpdateReleases = "releases"
	callHeard          = "heard"
	callPlan           = "plan"
	callStream         = "stream"
	callReadLog        = "read_log"
	callKeyWants       = "key_wants"
	callGrantKeys      = "grant_keys"
)

// request is a call. Each uses the fields of its name.
type request struct {
	ID         uint64            `json:"id"`
	Call       string            `json:"call"`
	Protocol   int               `json:"protocol,omitempty"`
	Signed     *protocol.Signed  `json:"signed,omitempty"`
	Sets       []protocol.Signed `json:"sets,omitempty"`
	Allocation ids.Allocation    `json:"allocation_id,omitzero"`
	Task       ids.Task          `json:"task_id,omitzero"`
	Ack        ReportAck         `json:"word,omitzero"`
	End        bool              `json:"end,omitempty"`
	Grant      *KeyGrant         `json:"grant,omitempty"`
}

// The events of the helper.
const (
	eventChanged  = "changed"
	eventFinished = "finished"
	eventProgress = "progress"
	eventProbe    = "probe"
	eventKeys     = "keys"
)

// message answers a call, or reports an event if it has no id.
type message struct {
	ID    uint64 `json:"id,omitempty"`
	Event string `json:"event,omitempty"`

	Failure  string                `json:"failure,omitempty"` // why the call came to nothing
	Code     protocol.RejectReason `json:"code,omitempty"`
	Hello    *Hello                `json:"hello,omitempty"`
	Answer   *answer               `json:"answer,omitempty"`
	Report   *protocol.Report      `json:"report,omitempty"`
	Results  []*protocol.Result    `json:"results,omitempty"`
	Plans    []runner.Plan         `json:"plans,omitempty"`
	Task     ids.Task              `json:"task_id,omitzero"`
	Progress *protocol.Progress    `json:"progress,omitempty"`
	Result   *protocol.Result      `json:"result,omitempty"`
	Stream   *Stream               `json:"stream,omitempty"`
	Log      *LogBatch             `json:"log,omitempty"`
	Wants    []KeyWant             `json:"wants,omitempty"`
}

// Hello is the introduction of the helper.
type Hello struct {
	Protocol int      `json:"protocol"`
	Version  string   `json:"version"`
	Node     ids.Node `json:"node_id"`
	ProofKey []byte   `json:"proof_key"`
	// Journal is true if the journal of the node exists.
	Journal bool `json:"journal"`
}

// answer is runner.Answer on its way.
type answer struct {
	Task      ids.Task              `json:"task_id"`
	Reply     *protocol.Result      `json:"reply,omitempty"`
	Code      protocol.RejectReason `json:"code,omitempty"`
	Rejection string                `json:"refusal,omitempty"`
	InHand    bool                  `json:"in_hand,omitempty"`
}

func packed(a runner.Answer) *answer {
	out := &answer{Task: a.Task, Reply: a.Reply, InHand: a.InHand}
	if a.Rejection != nil {
		out.Code, out.Rejection = protocol.CodeOf(a.Rejection), a.Rejection.Error()
		if refused, ok := errors.AsType[*protocol.RejectedError](a.Rejection); ok {
			out.Rejection = refused.Message
		}
	}
	return out
}

func (a *answer) unpacked() runner.Answer {
	out := runner.Answer{Task: a.Task, Reply: a.Reply, InHand: a.InHand}
	if a.Code != "" || a.Rejection != "" {
		out.Rejection = failure(a.Code, a.Rejection)
	}
	return out
}

// failure converts an error of the other process to an error of this one.
func failure(code protocol.RejectReason, message string) error {
	if code == "" {
		return errors.New(message)
	}
	return &protocol.RejectedError{Code: code, Message: message}
}
