package linux

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/netrules"
	"github.com/gpuaas/gpuaas/agent/linux/receiver"
)

// netDir contains an empty file for each uid with rules. netStamp contains the hash of the table after the last
// change: as nft printed it, and as it was written. Both are in memory and end with a restart of the host OS,
// as the table does.
const (
	netDir   = "/run/gpuaas/net"
	netStamp = "/run/gpuaas/net.hash"
)

// PutNet implements step.Nets.
func (h *Host) PutNet(ctx context.Context, name string, uid int) error {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return err
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	h.netMu.Lock()
	defer h.netMu.Unlock()
	if err := h.Folder(netDir, hostos.DirMode); err != nil {
		return err
	}
	if _, err := h.Put(filepath.Join(netDir, strconv.Itoa(uid)), nil, 0o600, 0); err != nil {
		return err
	}
	return h.putTable(ctx)
}

// RemoveNet implements step.Nets. Without tenants the table stays: it restricts every uid of a tenant,
// also an unknown one.
func (h *Host) RemoveNet(ctx context.Context, name string, uid int) error {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return err
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	h.netMu.Lock()
	defer h.netMu.Unlock()
	gone, err := h.Remove(filepath.Join(netDir, strconv.Itoa(uid)))
	if err != nil || !gone {
		return err
	}
	return h.putTable(ctx)
}

// putTable replaces all rules in one transaction of the kernel, so that no packet passes between the old rules and the
// new ones. The filter of sockets is attached first, because the rules only mark packets for it.
func (h *Host) putTable(ctx context.Context) error {
	uids, err := h.netUIDs()
	if err != nil {
		return err
	}
	if err := receiver.Attach(h.Path(topGroup)); err != nil {
		return err
	}
	text, err := h.Rules.Table(&h.OS, uids)
	if err != nil {
		return err
	}
	if _, err := h.Feed(ctx, hostos.Nft, []byte(text), "-f", "-"); err != nil {
		return fmt.Errorf("putting network rules: %w", err)
	}
	hash, err := h.tableHash(ctx, text)
	if err != nil {
		return err
	}
	_, err = h.Put(netStamp, []byte(hash), 0o600, 0)
	return err
}

// topGroup is the control group of all processes of this node.
const topGroup = "/sys/fs/cgroup"

func (h *Host) netUIDs() (uids []int, err error) {
	files, err := filepath.Glob(h.Path(netDir, "*"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if uid, err := strconv.Atoi(filepath.Base(file)); err == nil && uid >= hostos.MinUID && uid <= hostos.MaxUID {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids, nil
}

// tableHash returns the hash of the rules in effect, and of the text that they are made from: the addresses of
// the configuration and of the resolvers change without a change of the table.
func (h *Host) tableHash(ctx context.Context, text string) (string, error) {
	out, err := h.Command(ctx, hostos.Nft, "list", "table", "inet", "gpuaas")
	if err != nil {
		return "", fmt.Errorf("reading network rules: %w", err)
	}
	sum := sha256.Sum256(append(netrules.WithoutLearned(out), text...))
	return hex.EncodeToString(sum[:]), nil
}

// inspectNet lists the uids whose rules are in effect. Rules that cannot be read are not in effect, and reason names the
// error. It is not an error of the report: the rest of the report does not depend on the rules, and the repair puts them
// again.
func (h *Host) inspectNet(ctx context.Context) (inEffect map[int]bool, reason string) {
	h.netMu.Lock()
	defer h.netMu.Unlock()
	uids, err := h.netUIDs()
	if err != nil || len(uids) == 0 {
		return nil, why(err)
	}
	text, err := h.Rules.Table(&h.OS, uids)
	if err != nil {
		return nil, why(err)
	}
	hash, err := h.tableHash(ctx, text)
	if err != nil || hash != h.Text(netStamp) {
		return nil, why(err)
	}
	if is, err := receiver.IsAttached(h.Path(topGroup)); err != nil || !is {
		return nil, why(err)
	}
	inEffect = map[int]bool{}
	for _, uid := range uids {
		inEffect[uid] = true
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
