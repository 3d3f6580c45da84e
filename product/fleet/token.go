package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/secret"
)

// IssueToken creates an enrolment token with its audit row, in one transaction.
func (s *Service) IssueToken(ctx context.Context, by audit.By, node ids.Node) (token string, expires time.Time, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if token, expires, err = s.EnrolmentToken(ctx, tx, node); err != nil {
			return err
		}
		b := &pgx.Batch{}
		audit.Queue(b, audit.Entry{By: by, Action: "node.enrolment_token", Target: s.Naming.Name("", "", "node", node.String()).String()})
		return tx.SendBatch(ctx, b).Close()
	})
	return token, expires, err
}

// IssueTokenTo creates an enrolment token for an operator, who needs a recent sign-in: the holder of the
// token gets a node, and with it the work of tenants.
func (s *Service) IssueTokenTo(ctx context.Context, c identity.Caller, node ids.Node) (token string, expires time.Time, err error) {
	if err := s.Identity.Recent(c); err != nil {
		return "", time.Time{}, err
	}
	return s.IssueToken(ctx, c.Cause(), node)
}

// agentPlatforms lists the platforms of agent builds.
var agentPlatforms = []string{"linux-amd64", "linux-arm64"}

// Installer makes the command that installs the agent on a node. A server without agent builds has
// none.
type Installer struct {
	URL       string // of the node API
	Authority secret.Roots
	// Digest returns the SHA-256 of the agent build for a platform.
	Digest func(platform string) (string, error)
}

// AgentBuild is an agent build that the node API serves.
type AgentBuild struct{ Platform, SHA256 string }

// Install describes how to install an agent and to enrol its node.
type Install struct {
	Server        string
	CAFingerprint string
	Builds        []AgentBuild
	Command       string
}

// Command returns how to install an agent that enrols with token, or nil if the server has no
// agent build or no CA.
func (i Installer) Command(token string) *Install {
	in := &Install{Server: i.URL}
	for _, platform := range agentPlatforms {
		if digest, err := i.Digest(platform); err == nil {
			in.Builds = append(in.Builds, AgentBuild{Platform: platform, SHA256: digest})
		}
	}
	prints := pki.BundleFingerprints(i.Authority.Bundle())
	if len(in.Builds) == 0 || len(prints) == 0 {
		return nil
	}
	in.CAFingerprint = strings.Join(prints, ",")
	// The caller received the digest over a trusted channel, so the download may use -k.
	in.Command = fmt.Sprintf("curl -fsSk %[1]s/agent/%[2]s -o gpuaas-agent && echo '%[3]s  gpuaas-agent' | sha256sum -c - && chmod +x gpuaas-agent && "+
		"echo %[4]s | sudo ./gpuaas-agent install --server %[1]s --ca-fingerprint %[5]s", i.URL, in.Builds[0].Platform, in.Builds[0].SHA256, token, in.CAFingerprint)
	return in
}
