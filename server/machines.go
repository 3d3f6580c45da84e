package server

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/reconciler"
)

// machines is what is done to nodes that more than one room has a part in.
type machines struct {
	*set
	queue  *river.Client[pgx.Tx]
	naming ids.Naming
	// url is the door that agents reach, authority whom it is known by, and binaries
	// what it hands out.
	url       string
	authority secret.Authority
	binaries  *nodeapi.Binaries
}

// Seen asks each room once.
func (m machines) Seen(ctx context.Context, n fleet.Node, tasks int) (seen rest.NodeSeen, err error) {
	asked, err := m.tasks.Last(ctx, n.ID, tasks)
	if err != nil {
		return seen, err
	}
	for _, t := range asked {
		seen.Tasks = append(seen.Tasks, rest.NodeTask{
			ID: t.ID, Type: t.Type, Status: t.Status, Step: t.Step, Code: t.Code, Message: t.Message, Fence: t.Fence, Attempt: t.Attempt,
			Allocation: t.Allocation, CreatedAt: t.CreatedAt, FinishedAt: t.FinishedAt,
		})
	}
	o, err := m.desired.Get(ctx, desired.KindNode, "", n.Name)
	switch {
	case err == nil && o.UID.UUID == n.ID.UUID:
		seen.Object = &o
	case err != nil && errs.CodeOf(err) != errs.NotFound:
		return seen, err
	}
	report, err := m.observed.Node(ctx, n.ID)
	switch {
	case err == nil:
		seen.ReportedAt = &report.SeenAt
	case errs.CodeOf(err) != errs.NotFound:
		return seen, err
	}
	certificates, err := m.certificates.Of(ctx, n.ID)
	for _, c := range certificates {
		seen.Certificates = append(seen.Certificates, rest.NodeCertificate{
			Serial: c.Serial, Status: c.Status, Issuer: c.Issuer, NotAfter: c.NotAfter, RevokedAt: c.RevokedAt, Reason: c.Reason,
		})
	}
	return seen, err
}

const (
	// probeWithin is how long a person waits for a machine.
	probeWithin = 10 * time.Second
	// probeLook is how often the report is looked for meanwhile.
	probeLook = 100 * time.Millisecond
)

// Probe leaves the question in the node's mailbox and waits until it has been
// answered. One that waits there already is answered for both.
func (m machines) Probe(ctx context.Context, c identity.Caller, n fleet.Node) error {
	var asked time.Time
	err := pgx.BeginFunc(ctx, m.db, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`SELECT now()`).QueryRow(func(row pgx.Row) error { return row.Scan(&asked) }) // whose clock answers are told by
		audit.Queue(b, m.entry(c, "node.probe", n.ID))
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		_, err := m.queue.InsertTx(ctx, tx, reconciler.ProbeNode{Node: n.ID, Ask: asked.UnixMicro(), Reason: "requested by " + c.Actor()}, nil)
		return err
	})
	if err != nil {
		return err
	}
	if _, err := m.observed.Node(ctx, n.ID); errs.CodeOf(err) == errs.NotFound {
		return errs.New(errs.AgentTimeout, "node %s has never reported", n.Name).
			Try("enrol it: gpuaas node re-enrol %s prints the command to run on the node", n.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	tick := time.NewTicker(probeLook)
	defer tick.Stop()
	for {
		answered, err := m.tasks.Probed(ctx, n.ID, asked)
		switch {
		case answered:
			return nil
		case ctx.Err() != nil:
			return errs.New(errs.AgentTimeout, "node %s has not reported within %s", n.Name, probeWithin).
				Try("check its agent with systemctl status gpuaas-agent on the node; the task stays in its mailbox")
		case err != nil:
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (m machines) entry(c identity.Caller, action string, node ids.Node) audit.Entry {
	return audit.Entry{
		Tenant: c.Tenant, Actor: c.Actor(), Action: action, CorrelationID: c.CorrelationID,
		Target: m.naming.Name("", "", "node", node.String()).String(),
	}
}

// Token lets a node enrol.
func (m machines) Token(ctx context.Context, c identity.Caller, n fleet.Node) (rest.EnrolmentToken, error) {
	token, expires, err := m.tokenFor(ctx, audit.Entry{Actor: c.Actor(), CorrelationID: c.CorrelationID}, n.ID)
	return rest.EnrolmentToken{Token: token, ExpiresAt: expires, Install: m.install(token)}, err
}

// agentPlatforms are those that agents are built for.
var agentPlatforms = []string{"linux-amd64", "linux-arm64"}

// install is how a host comes in, where this server has an agent to hand out.
func (m machines) install(token string) *rest.InstallFacts {
	f := &rest.InstallFacts{Server: m.url}
	for _, platform := range agentPlatforms {
		if b, err := m.binaries.Find(platform); err == nil {
			f.Binaries = append(f.Binaries, rest.AgentBinary{Platform: platform, SHA256: b.Digest})
		}
	}
	prints := pki.BundleFingerprints(m.authority.Bundle())
	if len(f.Binaries) == 0 || len(prints) == 0 {
		return nil
	}
	f.CAFingerprint = prints[0]
	// The digest came over a channel that is trusted: the download need not be.
	f.Command = fmt.Sprintf("curl -fsSk %[1]s/agent/%[2]s -o gpuaas-agent && echo '%[3]s  gpuaas-agent' | sha256sum -c - && chmod +x gpuaas-agent && "+
		"echo %[4]s | sudo ./gpuaas-agent install --server %[1]s --ca-fingerprint %[5]s", m.url, f.Binaries[0].Platform, f.Binaries[0].SHA256, token, f.CAFingerprint)
	return f
}

// tokenFor makes a token with its audit row, in one transaction.
func (m machines) tokenFor(ctx context.Context, by audit.Entry, node ids.Node) (token string, expires time.Time, err error) {
	by.Action, by.Target = "node.enrolment_token", m.naming.Name("", "", "node", node.String()).String()
	err = pgx.BeginFunc(ctx, m.db, func(tx pgx.Tx) error {
		if token, expires, err = m.inventory.EnrolmentToken(ctx, tx, node); err != nil {
			return err
		}
		b := &pgx.Batch{}
		audit.Queue(b, by)
		return tx.SendBatch(ctx, b).Close()
	})
	return token, expires, err
}
