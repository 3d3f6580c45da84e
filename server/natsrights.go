package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// publishes lists the subjects that each role publishes to, besides hints. deploy/nats.conf has a user for each.
var publishes = map[Role][]string{
	RoleWork: {
		"dlq.>", "$JS.ACK.>", "$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.MSG.GET.*",
		"$JS.API.CONSUMER.INFO.>", "$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.DELETE.>", "$JS.API.CONSUMER.MSG.NEXT.>",
	},
	RoleRelay: {
		"provisioning.>", "billing.>", "payments.>", "fleet.>", "dlq.>", "$JS.API.INFO",
		"$JS.API.STREAM.INFO.*", "$JS.API.STREAM.CREATE.*", "$JS.API.STREAM.UPDATE.*", "$JS.API.STREAM.DELETE.*",
	},
}

type subjects struct{ Allow, Deny []string }

// checkNATSRights returns an error if the user of NATS_URL may not publish what the roles need: the server would find out
// at the first event. NATS may be unreachable at the start. Then nothing is checked.
func checkNATSRights(ctx context.Context, nc *nats.Conn, roles []Role) error {
	address, err := url.Parse(nc.ConnectedUrl()) // empty while NATS is unreachable
	if err != nil || address.User == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, rightsWithin)
	defer cancel()
	inbox := cmp.Or(nc.Opts.InboxPrefix, "_INBOX") + ".>"
	reply, err := nc.RequestWithContext(ctx, "$SYS.REQ.USER.INFO", nil)
	if err != nil {
		return fmt.Errorf("reading the rights of the user of NATS_URL, who must be allowed to publish to $SYS.REQ.USER.INFO and to subscribe to %s: %w", inbox, err)
	}
	var info struct {
		Data struct {
			Permissions *struct{ Publish, Subscribe *subjects }
		}
	}
	if err := json.Unmarshal(reply.Data, &info); err != nil {
		return fmt.Errorf("reading the rights of the user of NATS_URL: %w", err)
	}
	granted := info.Data.Permissions
	if granted == nil {
		return nil // all
	}
	for _, role := range roles {
		for _, subject := range append([]string{hintSubject + ">"}, publishes[role]...) {
			if !granted.Publish.allows(subject) {
				return fmt.Errorf("the user of NATS_URL may not publish to %s, which role %s needs: see deploy/nats.conf", subject, role)
			}
		}
	}
	for _, subject := range []string{hintSubject + ">", inbox} {
		if !granted.Subscribe.allows(subject) {
			return fmt.Errorf("the user of NATS_URL may not subscribe to %s: see deploy/nats.conf", subject)
		}
	}
	return nil
}

// rightsWithin bounds the request, which a user without the right to it never gets a reply to.
const rightsWithin = 5 * time.Second

func (s *subjects) allows(subject string) bool {
	if s == nil {
		return true
	}
	covered := func(by string) bool { return covers(by, subject) }
	return (len(s.Allow) == 0 || slices.ContainsFunc(s.Allow, covered)) && !slices.ContainsFunc(s.Deny, covered)
}

// covers reports whether a pattern matches all subjects of another one.
func covers(pattern, subject string) bool {
	have, want := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range have {
		switch {
		case token == ">":
			return len(want) > i
		case i >= len(want) || token != want[i] && (token != "*" || want[i] == ">"):
			return false
		}
	}
	return len(have) == len(want)
}
