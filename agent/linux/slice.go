package linux

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

// dropIn returns the drop-in that restricts all processes of the uid. It is on disk, so that after a
// start of the host OS the restriction exists before the first process.
func dropIn(uid int) string { return filepath.Join(unitDir, hostos.SliceOf(uid)+".d", "50-gpu.conf") }

// manager returns the path of the unit of the tenant's own systemd, which must never start. Only
// sessions of sshd have a private /tmp and hidden processes; programs of that systemd would have
// neither.
func manager(uid int) string { return filepath.Join(unitDir, fmt.Sprintf("user@%d.service", uid)) }

// elsewhere lists the folders in which systemctl stores manual settings.
func elsewhere(uid int) []string {
	return []string{filepath.Join("/etc/systemd/system.control", hostos.SliceOf(uid)+".d"), filepath.Join("/run/systemd/system.control", hostos.SliceOf(uid)+".d")}
}

// PutSlice implements step.Slices.
func (h *Host) PutSlice(ctx context.Context, s step.Slice) error {
	if err := hostos.CheckTenant(s.User, s.UID); err != nil {
		return err
	}
	text, err := h.sliceText(ctx, s)
	if err != nil {
		return err
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	// The mark is written before the device opens. A crash between both leaves a GPU that is marked
	// dirty and is closed, which is safe.
	if err := h.setClean(false, s.GPUs...); err != nil {
		return err
	}
	return h.bind(ctx, s.UID, text)
}

// bind makes text the only restrictions of the uid. The caller must have locked h.shared.
func (h *Host) bind(ctx context.Context, uid int, text string) error {
	if err := h.mask(uid); err != nil {
		return err
	}
	if err := h.dropOthers(uid); err != nil {
		return err
	}
	if _, err := h.Put(dropIn(uid), []byte(text), 0o644, 0); err != nil {
		return err
	}
	// Reload runs also if no file changed, because a crash may have occurred between the write and the
	// reload.
	return h.Reload(ctx)
}

// RemoveSlice implements step.Slices.
func (h *Host) RemoveSlice(ctx context.Context, name string, uid int) error {
	if err := hostos.CheckTenant(name, uid); err != nil {
		return err
	}
	h.shared.Lock()
	defer h.shared.Unlock()
	return h.unbind(ctx, uid)
}

// unbind removes the restrictions of the uid. The caller must have locked h.shared.
func (h *Host) unbind(ctx context.Context, uid int) error {
	if err := h.dropOthers(uid); err != nil {
		return err
	}
	changed := false
	for _, file := range []string{dropIn(uid), filepath.Dir(dropIn(uid)), manager(uid)} {
		gone, err := h.Remove(file)
		if err != nil {
			return err
		}
		changed = changed || gone
	}
	if !changed {
		return nil
	}
	return h.Reload(ctx)
}

// mask prevents the start of the tenant's own systemd.
func (h *Host) mask(uid int) error {
	link := manager(uid)
	if target, err := hostos.ReadLink(h.Path(link)); err == nil && target == nowhere {
		return nil
	}
	if _, err := h.Remove(link); err != nil {
		return err
	}
	return hostos.MakeLink(nowhere, h.Path(link))
}

const nowhere = "/dev/null"

// dropOthers removes every drop-in of the slice except that of the agent. systemd merges drop-ins, so another one could
// allow a device.
func (h *Host) dropOthers(uid int) error {
	for _, dir := range append(elsewhere(uid), filepath.Dir(dropIn(uid))) {
		files, err := filepath.Glob(h.Path(dir, "*"))
		if err != nil {
			return err
		}
		for _, file := range files {
			name := filepath.Join(dir, filepath.Base(file))
			if name == dropIn(uid) {
				continue
			}
			if _, err := h.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *Host) sliceText(ctx context.Context, s step.Slice) (string, error) {
	cards, err := h.cards(ctx)
	if err != nil {
		return "", err
	}
	var own []card
	for _, uuid := range s.GPUs {
		c, err := h.cardOf(ctx, uuid)
		if err != nil {
			return "", err
		}
		own = append(own, c)
	}
	return h.render(s.User, own, h.share(s.Limits, len(own), len(cards))), nil
}

// render returns the drop-in of a tenant with these GPUs.
func (h *Host) render(name string, own []card, l protocol.Limits) string {
	var b strings.Builder
	b.WriteString(written + tenantLine + name + "\n")
	// An empty assignment clears the devices that an earlier drop-in has allowed.
	b.WriteString("[Slice]\nDevicePolicy=closed\nDeviceAllow=\n")
	for _, device := range h.allowed(own) {
		fmt.Fprintf(&b, "DeviceAllow=%s\n", device)
	}
	fmt.Fprintf(&b, "CPUAccounting=yes\nCPUWeight=%d\nMemoryAccounting=yes\nMemoryMax=%dM\nMemorySwapMax=0\nTasksMax=%d\nIOWeight=%d\n",
		l.CPUWeight, l.MemoryMiB, l.Tasks, fairWeight)
	if cpus, nodes := h.near(own); cpus != "" {
		fmt.Fprintf(&b, "AllowedCPUs=%s\nAllowedMemoryNodes=%s\n", cpus, nodes)
	}
	return b.String()
}

// allowed lists the device rules of the tenant in the form of systemd, sorted.
func (h *Host) allowed(own []card) []string {
	devices := []string{"char-pts rw"}
	if len(own) > 0 {
		for _, file := range deviceFiles() {
			devices = append(devices, file+" rw")
		}
	}
	for _, c := range own {
		devices = append(devices, c.file()+" rw")
		for _, file := range h.capFiles(c.minor) {
			devices = append(devices, file+" r")
		}
	}
	slices.Sort(devices)
	return devices
}

// tenantLine begins the line with the tenant's name in its drop-in. It names the tenant also after the account was
// removed.
const tenantLine = "# Tenant "

const (
	// fairWeight is systemd's own for everybody.
	fairWeight = 100
	// tenantsMemory is the part of the memory, in percent, that tenants have together.
	tenantsMemory = 90
	// tasksPerGPU is several times the number of tasks of a training job with its loaders.
	tasksPerGPU = 4096
)

// share sets the limits that the task does not specify to the share of the node that the GPUs are.
func (h *Host) share(l protocol.Limits, own, all int) protocol.Limits {
	own, all = max(own, 1), max(all, 1)
	if l.CPUWeight == 0 {
		l.CPUWeight = fairWeight
	}
	if l.Tasks == 0 {
		l.Tasks = int64(tasksPerGPU * own)
	}
	if l.MemoryMiB == 0 {
		l.MemoryMiB = max(h.memoryMiB()*tenantsMemory/100*int64(own)/int64(all), 1)
	}
	return l
}

func (h *Host) memoryMiB() int64 {
	for line := range strings.Lines(h.Text("/proc/meminfo")) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib >> 10
		}
	}
	return 0
}

// near lists the processors and memory nodes next to the GPUs. Both are empty if the node has one memory
// node or does not report any.
func (h *Host) near(own []card) (cpus, nodes string) {
	var lists, numbers []string
	for _, c := range own {
		if !pciAddress.MatchString(c.PCI) {
			return "", ""
		}
		node, err := strconv.Atoi(h.Text("/sys/bus/pci/devices/" + c.PCI + "/numa_node"))
		if err != nil || node < 0 {
			return "", ""
		}
		list := h.Text("/sys/devices/system/node/node" + strconv.Itoa(node) + "/cpulist")
		if !numberList.MatchString(list) {
			return "", ""
		}
		if number := strconv.Itoa(node); !slices.Contains(numbers, number) {
			lists, numbers = append(lists, list), append(numbers, number)
		}
	}
	return strings.Join(lists, ","), strings.Join(numbers, ",")
}
