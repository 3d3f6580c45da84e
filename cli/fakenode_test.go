package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/platform/support"
)

// node serves the node operations; false means that the operation is another one. The node gpu-held
// has another operator's hold, and gpu-mute never reports.
func (f *fake) node(w http.ResponseWriter, r *http.Request, operation string, params map[string]string) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	n := fakeNode(false)
	n.Name = params["name"]
	switch operation {
	case "createNode":
		var asked oapi.NodeRequest
		read(body, &asked)
		if asked.Name == "sim-h100-01" {
			f.problem(w, r, http.StatusConflict, "already_exists", "a node is named sim-h100-01 already", nil)
			return true
		}
		w.Header().Set("Location", "/api/v1/admin/desired/Node/"+asked.Name)
		reply(w, http.StatusCreated, fakeObject(oapi.KindNode, asked.Name, "api"))
	case "createEnrolmentToken":
		w.Header().Set("Location", "/api/v1/admin/nodes/"+n.Name)
		token := oapi.EnrolmentToken{Node: n.Name, Token: "gpe_once", ExpiresAt: time.Now().Add(15 * time.Minute).UTC()}
		if n.Name != "gpu-bare" {
			token.Install = &oapi.InstallFacts{
				Server: "https://door:8443", CaFingerprint: "ab12", Binaries: []oapi.AgentBinary{{Platform: "linux-amd64", Sha256: "cd34"}},
				Command: "curl -fsSk https://node-api:8443/agent/linux-amd64 -o gpuaas-agent && echo 'cd34  gpuaas-agent' | sha256sum -c - && chmod +x gpuaas-agent && echo gpe_once | sudo ./gpuaas-agent install --server https://node-api:8443 --ca-fingerprint ab12",
			}
		}
		reply(w, http.StatusCreated, token)
	case "cordonNode":
		var asked oapi.NodeCordon
		read(body, &asked)
		reply(w, http.StatusOK, held(n, oapi.HoldKindCordon, asked.Reason, asked.Until))
	case "drainNode":
		var asked oapi.NodeDrain
		read(body, &asked)
		by := birth.Add(time.Duration(output.ValueOrZero(asked.GraceMinutes)) * time.Minute)
		reply(w, http.StatusAccepted, held(n, oapi.HoldKindDrain, asked.Reason, &by))
	case "uncordonNode":
		if n.Name == "gpu-held" && !strings.Contains(string(body), "true") {
			f.problem(w, r, http.StatusConflict, "drain_owned_by_other", "gpu-held has a drain of user:ada: fans", nil)
			return true
		}
		reply(w, http.StatusOK, n)
	case "probeNode":
		if n.Name == "gpu-mute" {
			f.problem(w, r, http.StatusGatewayTimeout, "agent_timeout", "gpu-mute has not reported within 10s", nil)
			return true
		}
		reply(w, http.StatusOK, n)
	case "retireNode":
		if n.Name == "gpu-used" {
			f.problem(w, r, http.StatusConflict, "node_in_use", "1 allocation depends on it", nil)
			return true
		}
		reply(w, http.StatusAccepted, fakeObject(oapi.KindNode, n.Name, "api"))
	case "revokeNode", "acceptNodeHardware", "overrideNodeHealth":
		reply(w, http.StatusOK, n)
	case "quarantineSlot", "clearSlot":
		slot := oapi.Slot{Id: id(9), Node: "sim-h100-01", Gpu: "GPU-1", Sku: "h100-80gb", Region: "eu-1", Status: oapi.Quarantined, Reason: "quarantined by an operator"}
		if operation == "clearSlot" && strings.Contains(string(body), `"inspected":true`) {
			slot.InspectedBy = &[]string{"user:" + id(3).String()}
		} else if operation == "clearSlot" {
			f.problem(w, r, http.StatusConflict, "proof_missing", "nothing proves that this slot may be sold", nil)
			return true
		}
		reply(w, http.StatusOK, slot)
	case "getSupportBundle":
		options := support.Options{Environment: "demo", Version: "1.2.3", CreatedAt: birth}
		if r.URL.Query().Get("pseudonyms") == "true" {
			options.PseudonymKey = []byte("k")
		}
		bundle, err := support.Build(r.Context(), []support.Section{
			{File: support.OverviewFile, Meaning: "The panels.", Read: func(context.Context) ([]byte, error) {
				return []byte(`{"panels":[{"name":"breaker","status":"degraded","message":"stopped","runbook_id":"mass-action-breaker"}]}`), nil
			}},
			{File: support.MetricsFile, Meaning: "The metrics.", Read: func(context.Context) ([]byte, error) {
				return []byte("# TYPE gpuaas_partitions_missing gauge\ngpuaas_partitions_missing 1\n"), nil
			}},
			{File: "nodes.json", Read: func(context.Context) ([]byte, error) { return nil, errors.New("no route") }},
		}, nil, options)
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/gzip")
		_, _ = w.Write(bundle)
	case "clearBreaker":
		reply(w, http.StatusOK, oapi.BreakerTrip{Id: id(9), TrippedAt: birth, Held: 2, Allowed: 2, Fleet: 9, Reason: "gpu-07: hot", RejectedNodes: 3})
	case "getOpsOverview":
		reply(w, http.StatusOK, oapi.OpsOverview{Panels: []oapi.OpsPanel{
			{Name: oapi.OpsPanelNameBreaker, Status: oapi.OpsPanelStatusDegraded, Message: "automatic holds are stopped", RunbookId: "mass-action-breaker", Values: map[string]int64{"open": 1}},
			{Name: oapi.OpsPanelNameDrift, Status: oapi.OpsPanelStatusUnknown, Message: "this part cannot be read", RunbookId: "drift-unresolved", Values: map[string]int64{}},
		}})
	case "listAdminAllocations", "getAdminAllocation", "forceReleaseAllocation", "exportAdminAllocations":
		f.adminAllocations(w, r, operation)
	case "listDeadLetters", "getDeadLetter", "retryDeadLetters", "discardDeadLetters", "listConsumers", "replayConsumer", "listNotifications", "markNotificationsRead",
		"getNotificationPreferences", "putNotificationPreferences", "getTenantNotificationPreferences", "putTenantNotificationPreferences", "testNotification",
		"listSuppressedAddresses", "liftSuppression":
		f.events(w, r, operation)
	case "listWebhooks", "createWebhook", "getWebhook", "updateWebhook", "deleteWebhook", "listWebhookDeliveries", "resendWebhookDelivery", "testWebhook", "rotateWebhookSecret", "replayWebhook":
		f.webhooks(w, r, operation)
	case "listTerminalSessions", "listAdminTerminalSessions":
		ended := oapi.TerminalEndReason("idle")
		f.page(w, r, []any{oapi.TerminalSession{
			Id: id(63), Urn: "u", AllocationId: id(1), PrincipalId: id(2), Purpose: "shell", Status: "ended", Address: "203.0.113.7", UserAgent: "gpuaas/1", SentBytes: 53,
			ReceivedBytes: 34, EndReason: &ended, EndedAt: &birth, CreatedAt: birth, UpdatedAt: birth,
		}}, 50)
	case "endTerminalSession", "endAdminTerminalSession":
		w.WriteHeader(http.StatusNoContent)
	case "createEvidence":
		reply(w, http.StatusAccepted, fakeBundle("pending", params["id"]))
	case "listEvidence":
		f.page(w, r, []any{fakeBundle("signed", id(1).String()), fakeBundle("pending", id(1).String()), fakeBundle("failed", id(1).String())}, 50)
	case "getEvidence":
		if unsigned, ok := map[string]string{id(65).String(): "pending", id(66).String(): "failed"}[params["id"]]; ok {
			reply(w, http.StatusOK, fakeBundle(unsigned, id(1).String()))
			return true
		}
		e := fakeBundle("signed", id(1).String())
		text := signedEvidence()
		e.File = &text
		reply(w, http.StatusOK, e)
	case "listTerminalRecordings":
		why := oapi.TerminalRecordingIncompleteReason("full")
		f.page(w, r, []any{oapi.TerminalRecording{
			Id: id(63), Urn: "u", AllocationId: id(1), PrincipalId: id(2), Status: "incomplete", IncompleteReason: &why, Columns: 120, Rows: 40, OutputBytes: 40960,
			DurationSeconds: 1200, CreatedAt: birth, UpdatedAt: birth,
		}}, 50)
	case "getTerminalRecording":
		w.Header().Set("Content-Type", "application/x-asciicast")
		_, _ = io.WriteString(w, "{\"version\": 2, \"width\": 120, \"height\": 40}\n[0.1, \"o\", \"This session is recorded.\\r\\n\"]\n")
	case "listFaultReports":
		f.page(w, r, []any{}, 50)
	case "listAllocationFaults":
		reason := "reproduced"
		f.page(w, r, []any{oapi.FaultReport{Id: id(9), Status: "confirmed", Message: "wrong sums", ReportedAt: birth, DecidedReason: &reason}}, 50)
	case "createSshCertificate":
		w.Header().Set("Location", "/api/v1/allocations/"+params["id"])
		named := func(name string) bool {
			return slices.ContainsFunc(f.items, func(a *oapi.Allocation) bool { return a.Id.String() == params["id"] && a.Name == name })
		}
		c := oapi.SshCertificate{
			Certificate: "ssh-ed25519-cert-v01@openssh.com AAAA", Serial: "1", ExpiresAt: birth, Via: oapi.SshCertificateViaDirect, Host: new("gpu-07.example"), Port: new(2222),
			Login: "u200017", Simulated: named("simulated"), HostKeys: new([]string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE"}),
		}
		if named("relayed") {
			c.Via, c.Host, c.Port = oapi.SshCertificateViaRelay, nil, nil
		}
		reply(w, http.StatusCreated, c)
	default:
		return false
	}
	return true
}

func held(n oapi.Node, kind oapi.HoldKind, reason string, until *time.Time) oapi.Node {
	n.Cordoned = true
	name := "ada@dev.localhost"
	n.Holds = &[]oapi.Hold{{Id: id(8), Kind: kind, Cause: oapi.HoldCauseOperator, Owner: "user:" + id(3).String(), OwnerName: &name, Reason: reason, DeadlineAt: until, CreatedAt: birth}}
	return n
}

// adminAllocations serves one allocation of another tenant.
func (f *fake) adminAllocations(w http.ResponseWriter, r *http.Request, operation string) {
	acme, where := "acme", "sim-h100-01"
	one := oapi.Allocation{
		Id: id(7), Name: "stuck", Status: oapi.AllocationStatusReleaseFailed, Sku: "h100-80gb", Gpus: 2, Region: "eu-1", CreatedAt: birth, StatusAt: birth,
		Price: oapi.Money{AmountMinor: 289, Currency: "EUR"}, Cost: oapi.Money{AmountMinor: 96, Currency: "EUR"}, TenantId: &acmeID, TenantName: &acme, NodeName: &where, Labels: map[string]string{}, Conditions: []oapi.Condition{},
	}
	switch operation {
	case "listAdminAllocations":
		f.page(w, r, []any{one}, 2)
	case "exportAdminAllocations":
		w.Header().Set("Content-Type", "text/csv")
		_, _ = io.WriteString(w, "allocation_id,tenant\n"+one.Id.String()+",acme\n")
	case "forceReleaseAllocation":
		one.Status = oapi.AllocationStatusReleasing
		reply(w, http.StatusAccepted, one)
	default:
		reply(w, http.StatusOK, one)
	}
}

var acmeID = id(6)
