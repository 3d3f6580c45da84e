package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/protocol/fault"
)

// SMI prints the simulated node in the format of nvidia-smi -q -x, with the elements that our
// parser and operators read.
func (h *Host) SMI() (string, error) {
	p, err := profileOf(h.Profile)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
	<driver_version>%s</driver_version>
	<cuda_version>%s</cuda_version>
	<attached_gpus>%d</attached_gpus>
`, driverVersion, cudaVersion, len(h.GPUs))
	for i, g := range h.GPUs {
		h.device(&b, p, i, g)
	}
	b.WriteString("</nvidia_smi_log>\n")
	return b.String(), nil
}

// usedPerProcessMiB is the GPU memory of a tenant's process. It is only displayed.
const usedPerProcessMiB = 1024

func (h *Host) device(b *strings.Builder, p Profile, index int, g *GPU) {
	users := slices.DeleteFunc(slices.Clone(h.Processes), func(x Process) bool { return x.GPU != g.UUID })
	used := min(len(users)*usedPerProcessMiB, p.MemoryMiB)
	busy := min(len(users)*40, 100)
	memory, temperature, watts := fmt.Sprintf("%d MiB", used), fmt.Sprintf("%d C", 29+busy/3), fmt.Sprintf("%d.00 W", p.IdleWatts+(p.Watts-p.IdleWatts)*busy/100)
	total, utilisation := fmt.Sprintf("%d MiB", p.MemoryMiB), fmt.Sprintf("%d %%", busy)
	if g.lost() {
		const lost = "GPU is lost"
		memory, temperature, watts, total, utilisation = lost, lost, lost, lost, lost
	}
	fmt.Fprintf(b, `	<gpu id="%[1]s">
		<product_name>%[2]s</product_name>
		<product_brand>NVIDIA</product_brand>
		<product_architecture>%[3]s</product_architecture>
		<mig_mode><current_mig>%[4]s</current_mig><pending_mig>%[4]s</pending_mig></mig_mode>
		<serial>%[5]s</serial>
		<uuid>%[6]s</uuid>
		<minor_number>%[7]d</minor_number>
		<persistence_mode>%[17]s</persistence_mode>
		<compute_mode>%[18]s</compute_mode>
		<vbios_version>%[8]s</vbios_version>
		<gpu_recovery_action>%[9]s</gpu_recovery_action>
		<pci><pci_bus_id>%[1]s</pci_bus_id></pci>
		<fb_memory_usage><total>%[10]s</total><reserved>%[11]d MiB</reserved><used>%[12]s</used></fb_memory_usage>
		<utilization><gpu_util>%[13]s</gpu_util></utilization>
		<temperature><gpu_temp>%[14]s</gpu_temp></temperature>
		<gpu_power_readings><instant_power_draw>%[15]s</instant_power_draw><current_power_limit>%[16]d.00 W</current_power_limit></gpu_power_readings>
		<processes>
`, "0000"+strings.ToUpper(g.PCI), p.Model, p.Architecture, p.MIG, g.Serial, g.UUID, index, p.VBIOS, g.recovery(),
		total, p.ReservedMiB, memory, utilisation, temperature, watts, p.Watts, g.persistence(), g.compute())
	for _, x := range users {
		fmt.Fprintf(b, "\t\t\t<process_info>\n\t\t\t\t<pid>%d</pid>\n\t\t\t\t<type>C</type>\n\t\t\t\t<used_memory>%d MiB</used_memory>\n\t\t\t</process_info>\n", x.PID, usedPerProcessMiB)
	}
	b.WriteString("\t\t</processes>\n\t</gpu>\n")
}

// Links prints what nvidia-smi nvlink -s prints.
func (h *Host) Links() string {
	p, err := profileOf(h.Profile)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for i, g := range h.GPUs {
		fmt.Fprintf(&b, "GPU %d: %s (UUID: %s)\n", i, p.Model, g.UUID)
		for l := range p.NVLinks {
			fmt.Fprintf(&b, "\t Link %d: %s\n", l, p.LinkSpeed)
		}
	}
	return b.String()
}

// A mode off its baseline, as the driver names it.
const (
	offPersistence = "persistence mode off"
	offCompute     = "compute mode Exclusive_Process"
)

func (g *GPU) persistence() string {
	if slices.Contains(g.Off, offPersistence) {
		return "Disabled"
	}
	return "Enabled"
}

func (g *GPU) compute() string {
	if slices.Contains(g.Off, offCompute) {
		return "Exclusive_Process"
	}
	return "Default"
}

// lost reports whether the device is off the bus. The driver can read nothing of such a device.
func (g *GPU) lost() bool { return slices.Contains(g.XIDs, 79) }

// recovery is the driver's verdict after the worst of its events.
func (g *GPU) recovery() string {
	verdict := "None"
	for _, xid := range g.XIDs {
		action := health.OfXID(xid).Rule.Action
		if action == fault.RestartHost {
			return "Node Reboot"
		}
		if action == fault.Diagnose {
			verdict = "Drain and Reset"
		}
		if (action == fault.ResetGPU || action == fault.Confirm) && verdict == "None" {
			verdict = "GPU Reset"
		}
	}
	return verdict
}
