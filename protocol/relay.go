package protocol

import (
	"encoding/json"
	"net"
	"regexp"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// PathRelay is the path of the terminal server to which an agent connects for a stream. The server switches the
// protocol to the bytes of the stream.
const PathRelay = "/internal/v1/nodes/%s/relay" // GET with RelayStreamHeader → 101, or 204 for a RelayReasonHeader

// The headers of a connection for a stream.
const (
	RelayStreamHeader = "Gpuaas-Stream" // the id of the stream
	RelayReasonHeader = "Gpuaas-Reason" // why the agent does not open the stream; at most MaxRelayReason bytes
	RelayUpgrade      = "gpuaas-relay"  // the value of Upgrade
	// CapabilityHeader of a poll contains the capability of the agent. A response contains requests for streams only if
	// it is RelayCapability or more: an older agent would reject such a response.
	CapabilityHeader = "Gpuaas-Capability"
)

const (
	// RelayCapability is the lowest capability of an agent that opens streams.
	RelayCapability = 3
	// RelayWithin limits the time between the signature of a request and its end.
	RelayWithin = 15 * time.Second
	// MaxRelayReason limits the text that an agent sends instead of a stream.
	MaxRelayReason = 300
)

// RelayOpen requests a stream. It is no row of the table of task types: a task key signs none that a node accepts, and a
// relay key signs nothing else. The id of the task is the id of the stream.
const RelayOpen Type = "relay.open"

// StreamKind is the kind of the destination of a stream.
type StreamKind string

// The kinds of streams.
const (
	StreamSSH  StreamKind = "ssh"  // sshd of the allocation
	StreamLogs StreamKind = "logs" // lines of a log of the allocation, or of the node without one
)

// RelayOpenParams are the parameters of RelayOpen. ServerKey authenticates the server, so that it needs no certificate
// of an authority: the signer of a request chooses the address as well.
type RelayOpenParams struct {
	Kind      StreamKind `json:"kind"`
	Address   string     `json:"address"`    // host:port of the terminal server
	ServerKey string     `json:"server_key"` // hex SHA-256 of the public key (SPKI) of its certificate
	Log       *LogQuery  `json:"log,omitempty"`
}

// Delivery is the response to a poll: a task, requests for streams, or both.
type Delivery struct {
	Signed

	Relays []Signed `json:"relays,omitempty"`
}

// HasTask reports whether the delivery contains a task.
func (d Delivery) HasTask() bool { return len(d.Body) > 0 }

var relayHost = regexp.MustCompile(`^[0-9A-Za-z:]([0-9A-Za-z:.-]{0,252})$`)

// NewRelayOpen returns the envelope of a stream that begins now, without its key and signature.
func NewRelayOpen(kid string, stream ids.Task, node ids.Node, of ids.Allocation, fence int64, p RelayOpenParams, nonce, trace string, now time.Time) (Envelope, error) {
	params, err := json.Marshal(p)
	now = now.Truncate(time.Second)
	e := Envelope{
		V: Version, Kid: kid, Task: stream, Node: node, Allocation: of, Fence: fence, Attempt: 1, Type: RelayOpen, Params: params,
		NotBefore: now.Add(-Backdate), ExpiresAt: now.Add(RelayWithin), Nonce: nonce, Trace: trace,
	}
	if err != nil {
		return e, err
	}
	return e, p.check(e)
}

// OpenRelay verifies the signature over the received bytes and returns the request. keys are the trusted relay keys by kid.
func OpenRelay(s Signed, keys map[string][]byte) (e Envelope, p RelayOpenParams, err error) {
	if e, err = Open(s, keys); err != nil {
		return e, p, err
	}
	if e.Type != RelayOpen {
		return e, p, Reject(TypeUnknown, "a relay key signs no %q", e.Type)
	}
	p, err = ParamsOf[RelayOpenParams](e)
	return e, p, err
}

func (p RelayOpenParams) check(e Envelope) error {
	host, port, err := net.SplitHostPort(p.Address)
	number, badPort := strconv.ParseUint(port, 10, 16)
	hasAllocation := e.Allocation != ids.Allocation{}
	switch {
	case (p.Kind != StreamLogs || hasAllocation) && (!hasAllocation || e.Fence == 0):
		return Reject(ParamsInvalid, "a stream needs an allocation and its fence")
	case p.Kind == StreamSSH && p.Log != nil:
		return Reject(ParamsInvalid, "a stream to sshd has no log query")
	case e.ExpiresAt.Sub(e.SignedAt()) > RelayWithin:
		return Reject(EnvelopeInvalid, "a request for a stream is valid for more than %s", RelayWithin)
	case p.Kind != StreamSSH && p.Kind != StreamLogs:
		return Reject(ParamsInvalid, "kind %q is neither %s nor %s", p.Kind, StreamSSH, StreamLogs)
	case err != nil || badPort != nil || number == 0 || !relayHost.MatchString(host):
		return Reject(ParamsInvalid, "%q is no address of a server", p.Address)
	case !digest.MatchString(p.ServerKey):
		return Reject(ParamsInvalid, "the key of the server is no SHA-256 in hex")
	case p.Kind == StreamLogs:
		return p.Log.check(hasAllocation)
	}
	return nil
}
