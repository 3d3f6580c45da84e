// Package nets puts the rules of package netrules into the kernel, for the tenants that files in memory name, and
// reports which of them are in effect.
package nets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/netrules"
	"github.com/gpuaas/gpuaas/agent/linux/receiver"
)

// Dir contains a file for each uid with rules. Its lines are the addresses of the storage that the tenant has mounts of.
// stamp contains the hash of the table after the last change: as nft printed it, and as it was written. Both are in
// memory and end with a restart of the host OS, as the table does.
const (
	Dir   = "/run/gpuaas/net"
	stamp = "/run/gpuaas/net.hash"
)

// topGroup is the control group of all processes of this node.
const topGroup = "/sys/fs/cgroup"

// Nets are the rules of this node. It is locked while the rules change, so that no inspection sees the change of one
// tenant as a difference of all.
type Nets struct{ mu sync.Mutex }

func file(uid int) string { return filepath.Join(Dir, strconv.Itoa(uid)) }

// Put puts the rules of a uid. Storage that it may reach already stays.
func (n *Nets) Put(ctx context.Context, o *hostos.OS, rules netrules.Rules, uid int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	storage, err := o.Read(file(uid))
	if err != nil {
		return err
	}
	if err := write(o, uid, storage); err != nil {
		return err
	}
	return putTable(ctx, o, rules)
}

// Permit permits a uid to reach storage at exactly these addresses.
func (n *Nets) Permit(ctx context.Context, o *hostos.OS, rules netrules.Rules, uid int, to []netip.AddrPort) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var text strings.Builder
	for _, a := range to {
		text.WriteString(a.String() + "\n")
	}
	if have, err := o.Read(file(uid)); err == nil && string(have) == text.String() && o.Exists(file(uid)) {
		return nil
	}
	if err := write(o, uid, []byte(text.String())); err != nil {
		return err
	}
	return putTable(ctx, o, rules)
}

func write(o *hostos.OS, uid int, storage []byte) error {
	if err := o.Folder(Dir, hostos.DirMode); err != nil {
		return err
	}
	_, err := o.Put(file(uid), storage, 0o600, 0)
	return err
}

// Remove removes the rules of a uid. Without tenants the table stays: it restricts every uid of a tenant, also an
// unknown one.
func (n *Nets) Remove(ctx context.Context, o *hostos.OS, rules netrules.Rules, uid int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	gone, err := o.Remove(file(uid))
	if err != nil || !gone {
		return err
	}
	return putTable(ctx, o, rules)
}

// putTable replaces all rules in one transaction of the kernel, so that no packet passes between the old rules and the
// new ones. The filter of sockets is attached first, because the rules only mark packets for it.
func putTable(ctx context.Context, o *hostos.OS, rules netrules.Rules) error {
	tenants, err := tenants(o)
	if err != nil {
		return err
	}
	if err := receiver.Attach(o.Path(topGroup)); err != nil {
		return err
	}
	text, err := rules.Table(o, tenants)
	if err != nil {
		return err
	}
	if _, err := o.Feed(ctx, hostos.Nft, []byte(text), "-f", "-"); err != nil {
		return fmt.Errorf("putting network rules: %w", err)
	}
	hash, err := tableHash(ctx, o, text)
	if err != nil {
		return err
	}
	_, err = o.Put(stamp, []byte(hash), 0o600, 0)
	return err
}

func tenants(o *hostos.OS) (found []netrules.Tenant, err error) {
	files, err := filepath.Glob(o.Path(Dir, "*"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		uid, err := strconv.Atoi(filepath.Base(path))
		if err != nil || !hostos.IsTenant(uid) {
			continue
		}
		t := netrules.Tenant{UID: uid}
		err = o.Lines(file(uid), func(line string) {
			if a, err := netip.ParseAddrPort(line); err == nil {
				t.Storage = append(t.Storage, a)
			}
		})
		if err != nil {
			return nil, err
		}
		found = append(found, t)
	}
	slices.SortFunc(found, func(a, b netrules.Tenant) int { return a.UID - b.UID })
	return found, nil
}

// tableHash returns the hash of the rules in effect, and of the text that they are made from: the addresses of
// the configuration and of the resolvers change without a change of the table.
func tableHash(ctx context.Context, o *hostos.OS, text string) (string, error) {
	out, err := o.Command(ctx, hostos.Nft, "list", "table", "inet", "gpuaas")
	if err != nil {
		return "", fmt.Errorf("reading network rules: %w", err)
	}
	sum := sha256.Sum256(append(netrules.WithoutLearned(out), text...))
	return hex.EncodeToString(sum[:]), nil
}

// Inspect lists the uids whose rules are in effect. Rules that cannot be read are not in effect, and reason names the
// error. It is not an error of the report: the rest of the report does not depend on the rules, and the repair puts them
// again.
func (n *Nets) Inspect(ctx context.Context, o *hostos.OS, rules netrules.Rules) (inEffect map[int]bool, reason string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	tenants, err := tenants(o)
	if err != nil || len(tenants) == 0 {
		return nil, why(err)
	}
	text, err := rules.Table(o, tenants)
	if err != nil {
		return nil, why(err)
	}
	hash, err := tableHash(ctx, o, text)
	if err != nil || hash != o.Text(stamp) {
		return nil, why(err)
	}
	if is, err := receiver.IsAttached(o.Path(topGroup)); err != nil || !is {
		return nil, why(err)
	}
	inEffect = map[int]bool{}
	for _, t := range tenants {
		inEffect[t.UID] = true
	}
	return inEffect, ""
}

// why returns the text of an error, or an empty one without an error.
func why(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
