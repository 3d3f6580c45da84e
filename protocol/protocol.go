// Package protocol contains the messages between server and node: tasks, envelopes, reports, proofs,
// their limits and their signatures. Both sides link it, so it imports no other package of ours.
package protocol

import (
	"encoding/json"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Version is the envelope version of this build.
const Version = 1

// Paths of the node API. A path with an id requires the certificate with the same id.
const (
	PathEnrol  = "/internal/v1/enrol"                               // POST EnrolRequest → EnrolReply; without a client certificate
	PathTrust  = "/internal/v1/trust"                               // GET → Trust
	PathRenew  = "/internal/v1/nodes/%s/certificate"                // POST RenewRequest → EnrolReply
	PathWait   = "/internal/v1/nodes/%s/tasks/wait"                 // GET → Signed (200) or nothing (204) after WaitFor
	PathResult = "/internal/v1/nodes/%s/tasks/%s/result"            // POST Result → 204, 409 task_superseded
	PathStep   = "/internal/v1/nodes/%s/tasks/%s/progress"          // POST Progress → 204
	PathReport = "/internal/v1/nodes/%s/report"                     // PUT Report → ReportReply, 409 stale_report
	PathMounts = "/internal/v1/nodes/%s/allocations/%s/storage-key" // POST {} → MountKeys, 404
	PathBuild  = "/internal/v1/agent/%s"                            // GET → the build of the agent with that SHA-256, in hex
	PathBinary = "/agent/%s"                                        // GET → the agent's binary for a platform as linux-amd64; without a client certificate
)

// WaitFor is the time that a poll stays open before the response 204.
const WaitFor = 30 * time.Second

// Envelope is a task for a node. Its canonical bytes are its JSON encoding with the fields in this
// sequence and no spaces. Signed contains exactly those bytes.
type Envelope struct {
	V          int             `json:"v"`
	Kid        string          `json:"kid"` // which task-signing key
	Task       ids.Task        `json:"task_id"`
	Node       ids.Node        `json:"node_id"`
	Allocation ids.Allocation  `json:"allocation_id"` // zero for tasks about the node
	Slots      []string        `json:"slots"`         // GPU UUIDs of the slots, sorted
	Generation int64           `json:"generation"`    // of the desired object; echoed as observed_generation
	Fence      int64           `json:"fence"`         // a higher fence is a later decision about the allocation, or about the node
	Attempt    int             `json:"attempt"`       // rises when the same task is sent again
	Type       Type            `json:"type"`
	Params     json.RawMessage `json:"params"`
	SpecHash   string          `json:"spec_hash"`  // hex SHA-256 of the spec that Params apply
	NotBefore  time.Time       `json:"not_before"` // RFC 3339, UTC
	ExpiresAt  time.Time       `json:"expires_at"`
	Nonce      string          `json:"nonce"` // 128 random bits, hex
	// Trace is the W3C traceparent of the request that caused the task, or empty.
	Trace string `json:"traceparent"`
}

// Signed is an envelope as sent. The node verifies Signature over the bytes of Body before it
// decodes them.
type Signed struct {
	// Kid names the task key, so that a node can distinguish an unknown key from a forgery. It is not
	// trusted and may be empty.
	Kid       string `json:"kid,omitempty"`
	Body      []byte `json:"body"`      // canonical JSON of an Envelope, base64 on the wire
	Signature []byte `json:"signature"` // Ed25519 over Body
}

// RejectReason is the reason why a node did not execute a task, or why the execution failed.
type RejectReason string

// The reasons for rejections before execution, and for failures.
const (
	VersionUnsupported RejectReason = "version_unsupported"
	KeyUnknown         RejectReason = "key_unknown"
	SignatureInvalid   RejectReason = "signature_invalid"
	EnvelopeInvalid    RejectReason = "envelope_invalid" // unknown or duplicate field, not canonical
	Misaddressed       RejectReason = "misaddressed"
	NotYetValid        RejectReason = "not_yet_valid"
	Expired            RejectReason = "expired"
	Replayed           RejectReason = "replayed"
	TypeUnknown        RejectReason = "type_unknown"
	ParamsInvalid      RejectReason = "params_invalid"
	StaleFence         RejectReason = "stale_fence"
	FenceConflict      RejectReason = "fence_conflict" // same fence, other content
	JournalLost        RejectReason = "journal_lost"
	SlotBusy           RejectReason = "slot_busy"
	SlotDirty          RejectReason = "slot_dirty"
	GPUUnhealthy       RejectReason = "gpu_unhealthy"
	StepFailed         RejectReason = "step_failed"
	VerifyFailed       RejectReason = "verify_failed"
	ScrubFailed        RejectReason = "scrub_failed"
	NotActive          RejectReason = "not_active" // no login of the allocation is in place at that fence
)

// Outcome is the end of a task.
type Outcome string

// A task ends in one of these.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
	Rejected  Outcome = "rejected"
)

// Result is the node's response to a task. The server accepts it by compare-and-set on task, fence
// and attempt.
type Result struct {
	Task       ids.Task       `json:"task_id"`
	Allocation ids.Allocation `json:"allocation_id"`
	Fence      int64          `json:"fence"`
	Attempt    int            `json:"attempt"`
	Generation int64          `json:"observed_generation"`
	Outcome    Outcome        `json:"outcome"`
	Code       RejectReason   `json:"code,omitempty"`    // set unless succeeded
	Message    string         `json:"message,omitempty"` // one sentence for an operator
	Step       string         `json:"step,omitempty"`    // where it failed
	Proof      *Proof         `json:"proof,omitempty"`
	// Answer is the result of a task about the node: a JSON object that depends on the type.
	Answer     json.RawMessage `json:"answer,omitempty"`
	FinishedAt time.Time       `json:"finished_at"` // the node's clock: displayed, never used for money
}

// Progress is one finished step of a running task.
type Progress struct {
	Fence   int64  `json:"fence"`
	Attempt int    `json:"attempt"`
	Step    string `json:"step"`
	Number  int    `json:"number"` // from 1
	Of      int    `json:"of"`
}

// Report is the state that a node reports. The server rejects an older one (by boot, then sequence) as
// stale_report. An incomplete report proves no absence. A report may be complete although an allocation of
// it is unread.
type Report struct {
	Capability  int                `json:"capability"`
	Agent       string             `json:"agent"`            // version of the agent
	Helper      string             `json:"helper,omitempty"` // version of its helper, if that is a separate process
	BootID      string             `json:"boot_id"`          // changes when the node starts
	Boot        int64              `json:"boot"`             // counts starts of the agent on this journal; a higher Boot is a later BootID
	Sequence    int64              `json:"sequence"`         // rises within a boot
	Complete    bool               `json:"complete"`
	Missing     []string           `json:"missing,omitempty"` // what could not be read, when not complete
	Inventory   Inventory          `json:"inventory"`
	Allocations []AllocationReport `json:"allocations"`
	// Platform is the target of the builds that can replace this agent, such as linux/amd64. It is empty
	// if the agent does not replace itself.
	Platform string `json:"platform,omitempty"`
	// Unsupported lists the task types that the driver of this node cannot run. A node that cannot
	// provision has no capacity.
	Unsupported []Type `json:"refuses,omitempty"`
	// Foreign lists use of a GPU that no task accounts for: drift, unsellable.
	Foreign []string `json:"foreign,omitempty"`
	// Health contains the reports of every source. It is absent if this agent has no source.
	Health []HealthReport `json:"health,omitempty"`
	// Topology is present after a change and after a probe.
	Topology *Topology `json:"topology,omitempty"`
	// Fingerprint is the SHA-256 of the hardware in hex. It is present also without the topology,
	// and empty if it is unknown.
	Fingerprint string `json:"fingerprint,omitempty"`

	// HostKeys are the public host keys of the SSH server of the node, each in the form of an authorized_keys line
	// without comment. They are absent if the node has no SSH server.
	HostKeys []string `json:"host_keys,omitempty"`

	// Mounts describes whether the node can mount stored objects. Older agents do not send it.
	Mounts *MountSupport `json:"mounts,omitempty"`

	// Nonce is 128 random bits in hex that the signed response repeats. Origin is the signature of the
	// helper over boot, sequence, nonce and host keys. Older agents send neither.
	Nonce  string `json:"nonce,omitempty"`
	Origin []byte `json:"origin,omitempty"`

	// Signed is Origin with the bytes and the key that it was verified with. The server sets it; it is not sent.
	Signed *SignedOrigin `json:"-"`

	// Enrolment sorts reports before Boot does. It rises with the enrolment of the certificate that the
	// report was sent with, and with the first signed report. The server sets it; it is not sent.
	Enrolment int64 `json:"-"`
}

// Phase is the phase of an allocation on its node.
type Phase string

// The phases that a node reports.
const (
	Working Phase = "working" // a task is being executed
	Ready   Phase = "ready"   // everything ordered is in place and verified
	Broken  Phase = "broken"  // something ordered is no longer in place: drift
	Gone    Phase = "gone"    // nothing of it is left, by proof
)

// AllocationReport is the report of one allocation that is on the node or in its journal.
type AllocationReport struct {
	Allocation ids.Allocation `json:"allocation_id"`
	Phase      Phase          `json:"phase"`
	Fence      int64          `json:"fence"` // highest acted on
	Generation int64          `json:"observed_generation"`
	SpecHash   string         `json:"spec_hash"`
	Step       string         `json:"step,omitempty"`
	Message    string         `json:"message,omitempty"` // names what differs when broken
	Proof      *Proof         `json:"proof,omitempty"`   // with phase gone
	// Unread names what of this allocation could not be read. Its phase is then no evidence, and the rest
	// of the report is.
	Unread string `json:"unread,omitempty"`
	// Mounts are the mounts of stored objects that the spec has.
	Mounts []MountReport `json:"mounts,omitempty"`
}

// Inventory is the hardware of a node.
type Inventory struct {
	Hostname  string `json:"hostname"`
	Driver    string `json:"driver"` // of the NVIDIA driver
	CUDA      string `json:"cuda"`
	Simulated bool   `json:"simulated"`
	GPUs      []GPU  `json:"gpus"`
}

// GPU is one device as its driver describes it. Zero means that the driver returned no value. Old
// boards return none for many fields.
type GPU struct {
	Index        int      `json:"index"`
	UUID         string   `json:"uuid"`
	Serial       string   `json:"serial,omitempty"`
	Model        string   `json:"model"`
	PCI          string   `json:"pci"` // 0000:1b:00.0, lower case
	MemoryMiB    int64    `json:"memory_mib"`
	VBIOS        string   `json:"vbios,omitempty"`
	MIG          string   `json:"mig,omitempty"` // enabled | disabled, empty when unsupported
	PowerLimitMW int64    `json:"power_limit_mw,omitempty"`
	PowerMW      int64    `json:"power_mw,omitempty"`
	Celsius      int      `json:"celsius,omitempty"`
	UsedMiB      int64    `json:"used_mib"`
	Utilisation  int      `json:"utilisation_percent"`
	NVLinks      int      `json:"nvlinks,omitempty"`
	Processes    int      `json:"processes"`
	Health       Health   `json:"health"`
	Reasons      []string `json:"reasons,omitempty"` // "xid 79: fallen off the bus"
}

// UnreadUtilisation is the utilisation of a GPU whose driver does not report it.
const UnreadUtilisation = -1

// Health is the health of a GPU, of a node or of a check.
type Health string

// The values of Health. A health that could not be read is unknown, never healthy.
const (
	Healthy   Health = "healthy"
	Degraded  Health = "degraded"
	Unhealthy Health = "unhealthy"
	Unknown   Health = "unknown"
)

// EnrolRequest exchanges a single-use token for a certificate. The key of CSR (PEM, P-256) is
// generated on the node and never leaves it.
type EnrolRequest struct {
	Token      string `json:"token"`
	CSR        string `json:"csr"`
	Hostname   string `json:"hostname"`
	Capability int    `json:"capability"`
	// ProofKey is the Ed25519 public key that verifies the proofs of the helper.
	ProofKey    []byte `json:"proof_key,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"` // of the hardware, as in a Report
}

// RenewRequest requests the next certificate, for a new key.
type RenewRequest struct {
	CSR string `json:"csr"`
}

// EnrolReply contains the identity of a node. The id of the node is in the only URI name of the
// certificate, spiffe://<trust domain>/node/<id>.
type EnrolReply struct {
	Node        ids.Node  `json:"node_id"`
	Certificate string    `json:"certificate"` // PEM chain, leaf first
	NotAfter    time.Time `json:"not_after"`
	Trust       Trust     `json:"trust"`
	ReportEvery int       `json:"report_seconds"`
}

// ReportReply contains the time of the next report. The interval is policy and may change at any time. A
// node with the old interval would become stale.
type ReportReply struct {
	ReportEvery int `json:"report_seconds"` // 0: as before
	// Renew requests a new certificate now: the trust has changed since the present one was issued.
	Renew bool `json:"renew,omitempty"`
	// Ack is a ReportAck, signed by a task key. It is absent if the report has no nonce.
	Ack Signed `json:"ack,omitzero"`
}

// Problem is the body of every error response of the node API.
type Problem struct {
	Code          string `json:"code"`
	Message       string `json:"message"`
	CorrelationID string `json:"correlation_id"`
	// Ack is the ReportAck of a report that is rejected as stale_report.
	Ack Signed `json:"ack,omitzero"`
}
