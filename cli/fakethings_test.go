package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/alloc"
	"github.com/gpuaas/gpuaas/cli/output"
)

func fakeSkus() []oapi.Sku {
	sku := func(n int, name, title string, price int64, free int) oapi.Sku {
		return oapi.Sku{
			Id: id(n), Urn: "core42:aicloud:-:-:-:sku:" + id(n).String(), Name: name, DisplayName: title, GpuModel: title, MemoryGib: 80,
			Isolation: "host_user", MaxGpus: 8, Price: eur(price), Free: free, Regions: []oapi.SkuRegion{{Region: "eu-1", Total: 16, Free: free}},
		}
	}
	return []oapi.Sku{sku(10, "dear", "NVIDIA B200", 9999999, 8), sku(11, "h100-80gb", "NVIDIA H100 80 GB", 289, 11), sku(12, "sold-out", "NVIDIA T4", 35, 0)}
}

func fakeNode(full bool) oapi.Node {
	n := oapi.Node{
		Id: id(20), Urn: "core42:aicloud:eu-1:-:-:node:" + id(20).String(), Name: "sim-h100-01", Sku: "h100-80gb", Region: "eu-1",
		Onboarding: "simulated", Lifecycle: "active", Health: "healthy", Reachability: "reachable", Occupancy: "partial", Slots: 8, Free: 5,
	}
	if full {
		held, slot := id(1), id(9)
		n.Gpus = &[]oapi.Gpu{{Uuid: "GPU-1", Index: 0, Model: "NVIDIA H100 80GB HBM3", MemoryMib: 81559, Health: "healthy", Reasons: []string{}, Present: true, SlotId: &slot, SlotStatus: "claimed", AllocationId: &held}}
	}
	return n
}

func fakeRevisions() []oapi.Revision {
	expected := "a price of 0 or more"
	return []oapi.Revision{
		{Revision: 8, Source: "fleet", Commit: "aaaaaaaaaaaaaaaa", Status: "invalid", Findings: []oapi.Finding{{Path: "skus.cue", Line: 12, Column: 5, Message: "amountMinor is -1", Expected: &expected}}, CreatedAt: birth},
		{Revision: 7, Source: "fleet", Commit: "9f3c2d1e00000000", Status: "applied", Current: true, Objects: 12, Created: 1, Findings: []oapi.Finding{}, CreatedAt: birth},
	}
}

func (f *fake) readsOf(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads[name]
}

func (f *fake) plan(w http.ResponseWriter) {
	object := id(99)
	if len(f.items) > 0 {
		object = f.items[0].Id
	}
	node := id(20)
	reply(w, http.StatusOK, oapi.PlanDetail{
		Id: id(7), CreatedAt: time.Now().UTC(), Status: "applied", Hash: "3f0a", Actions: 1,
		Steps: []oapi.PlanAction{{Number: 1, Kind: "Allocation", ObjectId: object, NodeId: &node, Verb: "ensure", Fence: 1, Generation: 1, Reason: "never reported"}},
	})
}

func (f *fake) addKey(w http.ResponseWriter, r *http.Request) {
	var body oapi.SshKeyRequest
	_ = json.NewDecoder(r.Body).Decode(&body)
	if r.Header.Get("X-Idempotency-Key") == "" {
		f.t.Error("a key was added without an idempotency key")
	}
	for _, k := range f.keys {
		if k.Name == body.Name {
			f.problem(w, r, http.StatusConflict, "already_exists", "there is a key of this name", nil)
			return
		}
	}
	k := oapi.SshKey{Id: id(30 + len(f.keys)), Name: body.Name, PublicKey: body.PublicKey, Fingerprint: "SHA256:abc", CreatedAt: birth}
	f.keys = append(f.keys, k)
	w.Header().Set("Location", "/api/v1/ssh-keys/"+k.Id.String())
	reply(w, http.StatusCreated, k)
}

func (f *fake) allocations(w http.ResponseWriter, r *http.Request, operation string, params map[string]string) {
	switch operation {
	case "createAllocation":
		f.createAllocation(w, r)
		return
	case "listAllocations":
		var found []oapi.Allocation
		for _, a := range f.items {
			if name := r.URL.Query().Get("name"); name == "" || name == a.Name {
				found = append(found, *a)
			}
		}
		f.page(w, r, toAny(found), 2)
		return
	}
	at := slices.IndexFunc(f.items, func(a *oapi.Allocation) bool { return a.Id.String() == params["id"] })
	if at < 0 {
		f.problem(w, r, http.StatusNotFound, "not_found", "there is no such allocation", nil)
		return
	}
	a := f.items[at]
	w.Header().Set("ETag", `"3"`)
	w.Header().Set("Location", "/api/v1/allocations/"+a.Id.String())
	switch operation {
	case "getAllocation":
		f.reads[a.Name]++
		f.advance(a)
		reply(w, http.StatusOK, a)
	case "getAllocationTimeline":
		reply(w, http.StatusOK, oapi.Timeline{Items: []oapi.Transition{{Version: 2, Event: "task_queued", From: "requested", To: "provisioning", Message: "the task is in the mailbox", OccurredAt: birth}}})
	case "releaseAllocation":
		if a.Status == oapi.AllocationStatusReleased || a.Status == oapi.AllocationStatusFailed {
			f.problem(w, r, http.StatusConflict, "allocation_final", "it has ended", nil)
			return
		}
		become(a, oapi.AllocationStatusReleasing, "False", "Progressing", "being wiped")
		reply(w, http.StatusAccepted, a)
	default:
		f.t.Errorf("the fake has no answer to %s", operation)
	}
}

func (f *fake) createAllocation(w http.ResponseWriter, r *http.Request) {
	var body oapi.AllocationRequest
	_ = json.NewDecoder(r.Body).Decode(&body)
	key := r.Header.Get("X-Idempotency-Key")
	if key == "" {
		f.t.Error("an allocation was requested without an idempotency key")
	}
	if made, ok := f.replies[key]; ok {
		w.Header().Set("Idempotency-Replayed", "true")
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Location", "/api/v1/allocations/"+made.Id.String())
		reply(w, http.StatusCreated, made)
		return
	}
	name := output.ValueOrZero(body.Name)
	switch {
	case body.Sku == "sold-out" && !output.ValueOrZero(body.Queue):
		f.problem(w, r, http.StatusConflict, "sku_unavailable", "no free slot of this SKU", nil)
		return
	case body.Sku == "dear":
		f.problem(w, r, http.StatusPaymentRequired, "insufficient_balance", "the balance does not cover one hour", map[string]any{"suggestion": "add funds"})
		return
	case name == "taken":
		f.problem(w, r, http.StatusConflict, "already_exists", "there is an allocation of this name", nil)
		return
	case name == "":
		name = "brave-otter"
	}
	a := f.made(name, body)
	f.replies[key] = *a
	if name == "flaky" { // done, but the answer is lost
		w.WriteHeader(dropped)
		return
	}
	w.Header().Set("ETag", `"1"`)
	w.Header().Set("Location", "/api/v1/allocations/"+a.Id.String())
	reply(w, http.StatusCreated, a)
}

func (f *fake) made(name string, body oapi.AllocationRequest) *oapi.Allocation {
	a := &oapi.Allocation{
		Id: id(100 + len(f.items)), Urn: "core42:aicloud:eu-1:-:-:allocation:x", ProjectId: id(2), UserId: id(3), Name: name, Sku: body.Sku, Gpus: output.ValueOrZero(body.Gpus),
		Region: "eu-1", NodeId: new(id(20)), Login: "u200017", Price: eur(289), Cost: eur(0), Labels: map[string]string{}, CreatedAt: birth, StatusAt: birth, Version: 1,
	}
	if body.Labels != nil {
		a.Labels = *body.Labels
	}
	become(a, oapi.AllocationStatusRequested, "False", "Progressing", "waiting for the node")
	if body.Sku == "sold-out" { // the reason is visible only in a later read, as with the server
		become(a, oapi.AllocationStatusRequested, "False", "Queued", "waits for capacity")
		a.Region, a.NodeId, a.Login = "", nil, ""
	}
	f.items = slices.Insert(f.items, 0, a)
	return a
}

// advance changes the state of an allocation by its name.
func (f *fake) advance(a *oapi.Allocation) {
	switch {
	case strings.HasPrefix(a.Name, "stuck"):
	case alloc.Queued(*a):
		a.Pending = fakePending()
	case a.Status == oapi.AllocationStatusRequested:
		become(a, oapi.AllocationStatusProvisioning, "False", "Progressing", "the task is in the mailbox")
	case a.Status == oapi.AllocationStatusProvisioning && strings.HasPrefix(a.Name, "broken"):
		become(a, oapi.AllocationStatusFailed, "False", "Failed", "the account could not be made")
		a.Conditions = append(a.Conditions, oapi.Condition{Type: "Stalled", Status: "True", Reason: "AgentTimeout", Message: "the account could not be made", LastTransitionTime: birth})
	case a.Status == oapi.AllocationStatusProvisioning:
		become(a, oapi.AllocationStatusActive, "True", "Succeeded", "The node is ready.")
		if a.Name == "keyless" {
			a.Conditions = append(a.Conditions, oapi.Condition{
				Type: "AccessReady", Status: "False", Reason: "NoSSHKey", Message: "no registered SSH key opens the allocation", LastTransitionTime: birth,
			})
		}
	case a.Status == oapi.AllocationStatusReleasing:
		become(a, oapi.AllocationStatusReleased, "True", "Succeeded", "clean")
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func fakePending() *oapi.Pending {
	position, until, ends := 2, birth.Add(24*time.Hour), birth.Add(5*time.Hour)
	return &oapi.Pending{
		Reason: "NoCapacity", Message: "no node has a GPU of sold-out free; fits after 14:00 when lease otter ends", StartedAt: birth, Position: &position, DeadlineAt: &until,
		Filters:     []oapi.FilterCount{{Filter: "cordoned", Nodes: 1}, {Filter: "occupied", Nodes: 3}},
		Suggestions: []oapi.Fit{{Text: "fits after 14:00 when lease otter ends", FitsAt: &ends}, {Text: "fits if node n7 is uncordoned"}},
	}
}

func become(a *oapi.Allocation, status oapi.AllocationStatus, ready oapi.ConditionStatus, reason oapi.ConditionReason, message string) {
	a.Status = status
	a.Version++
	a.Conditions = []oapi.Condition{{Type: "Ready", Status: ready, Reason: reason, Message: message, ObservedGeneration: 1, LastTransitionTime: birth}}
}

// stream sends three facts to a client that requests the past, and a fact for every change.
func (f *fake) stream(w http.ResponseWriter, r *http.Request) {
	follower := r.Header.Get("Authorization") == "Bearer "+userToken
	if r.Header.Get("Authorization") != "Bearer "+goodToken && !follower {
		f.problem(w, r, http.StatusUnauthorized, "token_invalid", "the token is not good", nil)
		return
	}
	if follower && f.notified.Load() > 1 {
		f.problem(w, r, http.StatusForbidden, "forbidden", "the user is disabled", nil)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	send := func(n int, kind string) {
		at := birth.Add(time.Duration(n) * time.Second).Format(time.RFC3339)
		_, _ = fmt.Fprintf(w, "id: %s\nevent: %s\ndata: {\"event_id\":\"%s\",\"event_type\":\"%s\",\n", id(n), kind, id(n), kind)
		_, _ = fmt.Fprintf(w, "data: \"occurred_at\":\"%s\",\"version\":\"1.0\",\"correlation_id\":\"c%d\",\"payload\":{\"urn\":\"core42:aicloud:eu-1:-:-:allocation:%s\"}}\n\n", at, n, id(100))
		w.(http.Flusher).Flush()
	}
	_, _ = fmt.Fprint(w, "retry: 2000\n\n: hello\n\n")
	w.(http.Flusher).Flush()
	// A client of notifications gets one, and loses the connection. The list then has the next one.
	if follower {
		if f.notified.Add(1) > 1 {
			_, _ = fmt.Fprint(w, "event: unread\ndata: {\"unread\":2}\n\n")
			return
		}
		data, _ := json.Marshal(fakeNotification(44, expiring))
		_, _ = fmt.Fprint(w, "event: unread\ndata: {\"unread\":1}\n\n")
		w.(http.Flusher).Flush()
		_, _ = fmt.Fprintf(w, "event: notification\ndata: %s\n\n", data)
		return
	}
	switch r.URL.Query().Get("since") {
	case "0":
		send(41, "provisioning.requested")
		send(42, "provisioning.active")
		fallthrough
	case id(42).String():
		send(43, "provisioning.releasing.requested")
	}
	for n := 50; ; n++ {
		select {
		case <-r.Context().Done():
			return
		case <-f.changed:
			send(n, "provisioning.changed")
		}
	}
}
