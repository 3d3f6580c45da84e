package linux

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

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// netDir contains an empty file for each uid with rules. netStamp contains the hash of the table as
// nft printed it after the last change. Both are in memory and end with a restart of the host OS,
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
	gone, err := h.Remove(filepath.Join(netDir, strconv.Itoa(uid)))
	if err != nil || !gone {
		return err
	}
	return h.putTable(ctx)
}

// putTable puts all rules in one transaction of the kernel: there is no moment
// without them.
func (h *Host) putTable(ctx context.Context) error {
	uids, err := h.netUIDs()
	if err != nil {
		return err
	}
	if _, err := h.Feed(ctx, hostos.Nft, []byte(table(uids, h.Deny)), "-f", "-"); err != nil {
		return fmt.Errorf("putting network rules: %w", err)
	}
	hash, err := h.tableHash(ctx)
	if err != nil {
		return err
	}
	_, err = h.Put(netStamp, []byte(hash), 0o600, 0)
	return err
}

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

func (h *Host) tableHash(ctx context.Context) (string, error) {
	out, err := h.Command(ctx, hostos.Nft, "list", "table", "inet", "gpuaas")
	if err != nil {
		return "", fmt.Errorf("reading network rules: %w", err)
	}
	sum := sha256.Sum256(out)
	return hex.EncodeToString(sum[:]), nil
}

// inspectNet lists the uids whose rules are in effect.
func (h *Host) inspectNet(ctx context.Context) (map[int]bool, error) {
	stands := map[int]bool{}
	uids, err := h.netUIDs()
	if err != nil || len(uids) == 0 {
		return stands, err
	}
	hash, err := h.tableHash(ctx)
	if err != nil && hostos.ExitCode(err) == 0 {
		return nil, err
	}
	if err != nil || hash != h.Text(netStamp) {
		return stands, nil //nolint:nilerr // a table that is gone is what we look for
	}
	for _, uid := range uids {
		stands[uid] = true
	}
	return stands, nil
}

// table returns the rules that restrict tenants, by the uid of the socket of a packet.
//
// Between tenants on one node no packet is dropped when it is sent, because the kernel does not know the
// receiver at that point. The uid of the sender becomes the mark of the connection, and responses of
// another tenant are dropped.
func table(uids []int, deny []netip.Prefix) string {
	four, six := []string{"169.254.0.0/16"}, []string{"fe80::/10", "fd00:ec2::254/128"} // link-local, where the metadata of clouds is
	for _, p := range deny {
		const mapped = 96 // bits of ::ffff:0:0
		if p.Addr().Is4In6() && p.Bits() >= mapped {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
		}
		switch p = p.Masked(); {
		case !p.IsValid():
		case p.Addr().Is4():
			four = append(four, p.String())
		default:
			six = append(six, p.String())
		}
	}
	var marks, own []string
	for _, uid := range uids {
		marks = append(marks, fmt.Sprintf("%d : %[1]d", uid))
		own = append(own, fmt.Sprintf("%d . %[1]d", uid))
	}
	return strings.NewReplacer(
		"$TENANTS", fmt.Sprintf("%d-%d", hostos.MinUID, hostos.MaxUID), "$MARKS", elements(marks), "$OWN", elements(own), "$FOUR", elements(four), "$SIX", elements(six),
	).Replace(tableText)
}

const tableText = `table inet gpuaas
delete table inet gpuaas
table inet gpuaas {
	map marks { type uid : mark; $MARKS }
	set own { type uid . mark; $OWN }
	set denied4 { type ipv4_addr; flags interval; auto-merge; $FOUR }
	set denied6 { type ipv6_addr; flags interval; auto-merge; $SIX }
	chain output {
		type filter hook output priority filter; policy accept;
		oifname "lo" ct direction reply ct mark $TENANTS meta skuid $TENANTS meta skuid . ct mark != @own drop
		meta skuid != $TENANTS accept
		ip daddr @denied4 reject
		ip6 daddr @denied6 reject
		oifname "lo" ct direction original ct mark set meta skuid map @marks
	}
}
`

func elements(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return "elements = { " + strings.Join(list, ", ") + " }"
}
