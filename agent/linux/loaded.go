package linux

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

var (
	pciAddress = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	numberList = regexp.MustCompile(`^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`)
)

// loaded is a slice as systemd has it now. It restricts the tenant; the file on disk takes effect only with the next
// reload.
type loaded struct {
	uid     int
	policy  string
	devices []string
	limits  protocol.Limits
	swap    string
	dropIns []string
}

// opens reports whether the slice lets its processes open the file.
func (l loaded) opens(file string) bool {
	return l.policy != "closed" && l.policy != "strict" || l.lists(file)
}

// lists reports whether the slice names the file as one that its processes may open.
func (l loaded) lists(file string) bool {
	return slices.ContainsFunc(l.devices, func(device string) bool {
		name, _, _ := strings.Cut(device, " ")
		return name == file || name == "char-*" || strings.HasPrefix(name, "char-nvidia") && strings.HasPrefix(file, "/dev/nvidia")
	})
}

// properties are requested by name, because systemctl prints several hundred by default.
const properties = "Id,DevicePolicy,DeviceAllow,CPUWeight,MemoryMax,MemorySwapMax,TasksMax,DropInPaths"

// slices reads the slices of the uids from systemd.
func (h *Host) slices(ctx context.Context, uids []int) (map[int]loaded, error) {
	found := map[int]loaded{}
	if len(uids) == 0 {
		return found, nil
	}
	args := []string{"show", "--property=" + properties}
	for _, uid := range uids {
		args = append(args, hostos.SliceOf(uid))
	}
	out, err := h.Command(ctx, hostos.Systemctl, args...)
	if err != nil {
		return nil, fmt.Errorf("asking systemd for slices: %w", err)
	}
	for block := range bytes.SplitSeq(out, []byte("\n\n")) {
		if l, ok := parseSlice(string(block)); ok {
			found[l.uid] = l
		}
	}
	for _, uid := range uids {
		if _, ok := found[uid]; !ok {
			return nil, fmt.Errorf("systemd reports nothing about %s", hostos.SliceOf(uid))
		}
	}
	return found, nil
}

func parseSlice(block string) (l loaded, ok bool) {
	for line := range strings.Lines(block) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "Id":
			_, err := fmt.Sscanf(value, "user-%d.slice", &l.uid)
			ok = err == nil
		case "DevicePolicy":
			l.policy = value
		case "DeviceAllow":
			if value != "" {
				l.devices = append(l.devices, value)
			}
		case "CPUWeight":
			l.limits.CPUWeight, _ = strconv.Atoi(value) // "[not set]" is none
		case "MemoryMax":
			bytes, _ := strconv.ParseInt(value, 10, 64) // "infinity" is none
			l.limits.MemoryMiB = bytes >> 20
		case "MemorySwapMax":
			l.swap = value
		case "TasksMax":
			l.limits.Tasks, _ = strconv.ParseInt(value, 10, 64)
		case "DropInPaths":
			l.dropIns = strings.Fields(value)
		}
	}
	slices.Sort(l.devices)
	return l, ok
}

// wrong lists the limits of the tenant that differ from our drop-in.
func (h *Host) wrong(l loaded, name string, own []card) (found []string) {
	if l.policy != "closed" {
		found = append(found, fmt.Sprintf("slice: %s has device policy %s, expected closed", name, l.policy))
	}
	want := h.allowed(own)
	for _, device := range l.devices {
		if !slices.Contains(want, device) {
			found = append(found, fmt.Sprintf("slice: %s may open %s, expected not", name, device))
		}
	}
	for _, device := range want {
		if !slices.Contains(l.devices, device) {
			found = append(found, fmt.Sprintf("slice: %s may not open %s, expected so", name, device))
		}
	}
	if l.swap != "0" {
		found = append(found, fmt.Sprintf("slice: %s may swap %s, expected 0", name, l.swap))
	}
	for _, path := range l.dropIns {
		if path != dropIn(l.uid) && !strings.HasPrefix(path, "/usr/lib/") && !strings.HasPrefix(path, "/lib/") {
			found = append(found, fmt.Sprintf("slice: %s is also limited by %s, expected no other limit", name, path))
		}
	}
	if target, err := hostos.ReadLink(h.Path(manager(l.uid))); err != nil || target != nowhere {
		found = append(found, fmt.Sprintf("slice: %s may run a systemd of its own, expected none", name))
	}
	return found
}

// Shut implements step.Devices. A user who is not a tenant has no slice of the agent, so that Shut
// cannot close the device for that user.
func (h *Host) Shut(ctx context.Context, user string, gpus []string) error {
	if len(gpus) == 0 {
		return nil
	}
	users, err := h.tenants()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(users, func(u tenantOf) bool { return u.name == user })
	if i < 0 {
		return fmt.Errorf("%s is not a tenant of this node, but can open %s", user, gpus[0])
	}
	u := users[i]
	bound, err := h.slices(ctx, []int{u.uid})
	if err != nil {
		return err
	}
	cards, err := h.cards(ctx)
	if err != nil {
		return err
	}
	var keeps []string
	for _, c := range cards {
		if bound[u.uid].opens(c.file()) && !slices.Contains(gpus, c.UUID) && bound[u.uid].policy == "closed" {
			keeps = append(keeps, c.UUID)
		}
	}
	limits := bound[u.uid].limits
	return h.PutSlice(ctx, step.Slice{User: u.name, UID: u.uid, GPUs: keeps, Limits: limits})
}

// tenantOf is the uid of a tenant on this node. It has an account, or only settings that restrict
// it.
type tenantOf struct {
	name    string // "uid-200001" if neither an account nor a drop-in names it
	uid     int
	account bool
}

// acting returns the tenants with account set for those that have an account before and now, or a process: only these can
// open a device. A single read would report a leak for a tenant whose account is created or removed during the
// inspection.
func acting(before, now []tenantOf, processes []step.Process) []tenantOf {
	tenants := slices.Clone(before)
	for i := range tenants {
		t := &tenants[i]
		t.account = t.account && slices.Contains(now, *t) ||
			slices.ContainsFunc(processes, func(p step.Process) bool { return p.UID == t.uid })
	}
	return tenants
}

// boundName returns the tenant that the drop-in of the slice names.
func (h *Host) boundName(uid int) string {
	for line := range strings.Lines(h.Text(dropIn(uid))) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), tenantLine); ok && hostos.UserName.MatchString(name) {
			return name
		}
	}
	return "uid-" + strconv.Itoa(uid)
}

// tenants lists them by uid.
func (h *Host) tenants() (found []tenantOf, err error) {
	users, err := h.Users()
	if err != nil {
		return nil, fmt.Errorf("reading accounts: %w", err)
	}
	known := map[int]bool{}
	for _, u := range users {
		if u.UID >= hostos.MinUID && u.UID <= hostos.MaxUID && hostos.UserName.MatchString(u.Name) {
			found, known[u.UID] = append(found, tenantOf{u.Name, u.UID, true}), true
		}
	}
	for _, dir := range append([]string{unitDir}, "/etc/systemd/system.control", "/run/systemd/system.control") {
		paths, err := filepath.Glob(h.Path(dir, "user-*.slice.d"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			var uid int
			if _, err := fmt.Sscanf(filepath.Base(path), "user-%d.slice.d", &uid); err != nil || uid < hostos.MinUID || uid > hostos.MaxUID || known[uid] {
				continue
			}
			found, known[uid] = append(found, tenantOf{h.boundName(uid), uid, false}), true
		}
	}
	slices.SortFunc(found, func(a, b tenantOf) int { return a.uid - b.uid })
	return found, nil
}
