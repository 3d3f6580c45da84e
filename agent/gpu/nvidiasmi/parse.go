// Package nvidiasmi reads NVIDIA devices through the tool of the driver. "N/A", "GPU is lost" and every
// value that it does not understand count as not known. It rejects output that is cut off, too large, or
// that lists another number of devices than it counts.
package nvidiasmi

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	// maxOutput is 60 times what eight H100 print (212 kB).
	maxOutput = 12 << 20
	// maxGPUs exceeds the number of GPUs of every board and chassis.
	maxGPUs = 256
)

// device contains the fields that we read of one <gpu>. All are text, because any field may contain a
// sentence instead of a number.
type device struct {
	Product  string `xml:"product_name"`
	UUID     single `xml:"uuid"`
	Serial   string `xml:"serial"`
	Minor    single `xml:"minor_number"`
	VBIOS    string `xml:"vbios_version"`
	MIG      string `xml:"mig_mode>current_mig"`
	PCI      string `xml:"pci>pci_bus_id"`
	Total    string `xml:"fb_memory_usage>total"`
	Used     string `xml:"fb_memory_usage>used"`
	Util     string `xml:"utilization>gpu_util"`
	Temp     string `xml:"temperature>gpu_temp"`
	Limit    string `xml:"gpu_power_readings>current_power_limit"`
	Draw     string `xml:"gpu_power_readings>instant_power_draw"`
	AvgDraw  string `xml:"gpu_power_readings>average_power_draw"`
	OldLimit string `xml:"power_readings>power_limit"` // drivers before 535
	OldDraw  string `xml:"power_readings>power_draw"`

	Recovery string   `xml:"gpu_recovery_action"`
	Remapped remapped `xml:"remapped_rows"`
	Volatile errorsOf `xml:"ecc_errors>volatile"`
	Thermal  string   `xml:"clocks_event_reasons>clocks_event_reason_hw_thermal_slowdown"`
	Retiring string   `xml:"retired_pages>pending_retirement"`

	PowerBrake    string `xml:"clocks_event_reasons>clocks_event_reason_hw_power_brake_slowdown"`
	RetiredSingle string `xml:"retired_pages>multiple_single_bit_retirement>retired_count"`
	RetiredDouble string `xml:"retired_pages>double_bit_retirement>retired_count"`
	DeviceID      string `xml:"pci>pci_device_id"`
	Gen           string `xml:"pci>pci_gpu_link_info>pcie_gen>current_link_gen"`
	MaxGen        string `xml:"pci>pci_gpu_link_info>pcie_gen>max_link_gen"`
	Width         string `xml:"pci>pci_gpu_link_info>link_widths>current_link_width"`
	MaxWidth      string `xml:"pci>pci_gpu_link_info>link_widths>max_link_width"`
	Replays       string `xml:"pci>replay_counter"`

	Processes []process `xml:"processes>process_info"`
}

// single is the text of an element that a device has one of.
type single string

// UnmarshalXML rejects a second element.
func (o *single) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	if *o != "" {
		return fmt.Errorf("a GPU has two <%s>", start.Name.Local)
	}
	return d.DecodeElement((*string)(o), &start)
}

type remapped struct {
	Text    string `xml:",chardata"` // the whole element may be one sentence
	Pending string `xml:"remapped_row_pending"`
	Failure string `xml:"remapped_row_failure"`
}

type errorsOf struct {
	Dram   string `xml:"dram_uncorrectable"`
	Parity string `xml:"sram_uncorrectable_parity"`
	Secded string `xml:"sram_uncorrectable_secded"`
	Old    string `xml:"sram_uncorrectable"`
}

type process struct {
	Type string `xml:"type"` // C, G or C+G
}

// Parse reads the output of nvidia-smi -q -x.
func Parse(r io.Reader) (protocol.Inventory, error) {
	seen, err := Read(r)
	return seen.Inventory, err
}

func parse(d *xml.Decoder, each func(device, protocol.GPU)) (protocol.Inventory, error) {
	inventory := protocol.Inventory{GPUs: []protocol.GPU{}}
	attached, closed, seen := "", false, map[string]bool{}
	if err := root(d); err != nil {
		return inventory, err
	}
	for !closed {
		token, err := d.Token()
		if err != nil {
			return inventory, err
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			_, closed = token.(xml.EndElement) // children are consumed whole below
			continue
		}
		switch start.Name.Local {
		case "driver_version":
			err = d.DecodeElement(&inventory.Driver, &start)
		case "cuda_version":
			err = d.DecodeElement(&inventory.CUDA, &start)
		case "attached_gpus":
			err = d.DecodeElement(&attached, &start)
		case "gpu":
			err = addDevice(d, &start, &inventory, seen, each)
		default:
			err = d.Skip()
		}
		if err != nil {
			return inventory, err
		}
	}
	if n, ok := integer(attached); !ok || n != int64(len(inventory.GPUs)) {
		return inventory, fmt.Errorf("%q GPUs are attached, %d are listed", attached, len(inventory.GPUs))
	}
	return inventory, nil
}

func root(d *xml.Decoder) error {
	for {
		token, err := d.Token()
		if err != nil {
			return err
		}
		if start, ok := token.(xml.StartElement); ok {
			if start.Name.Local != "nvidia_smi_log" {
				return fmt.Errorf("<%s> is not nvidia-smi's output", start.Name.Local)
			}
			return nil
		}
	}
}

func addDevice(d *xml.Decoder, start *xml.StartElement, inventory *protocol.Inventory, seen map[string]bool, each func(device, protocol.GPU)) error {
	if len(inventory.GPUs) == maxGPUs {
		return fmt.Errorf("more than %d GPUs", maxGPUs)
	}
	var dev device
	if err := d.DecodeElement(&dev, start); err != nil {
		return err
	}
	g, err := dev.gpu(len(inventory.GPUs))
	if err != nil {
		return err
	}
	if seen[g.UUID] {
		// Slots are sold by UUID. Two devices of one would be one slot sold twice.
		return fmt.Errorf("two GPUs have UUID %s", g.UUID)
	}
	seen[g.UUID] = true
	inventory.GPUs = append(inventory.GPUs, g)
	each(dev, g)
	return nil
}

var uuid = regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func (dev device) gpu(index int) (protocol.GPU, error) {
	id := strings.TrimSpace(string(dev.UUID))
	if !uuid.MatchString(id) {
		return protocol.GPU{}, fmt.Errorf("GPU %d has no UUID but %.60q", index, id)
	}
	g := protocol.GPU{
		Index: index, UUID: id, Serial: textOrEmpty(dev.Serial), Model: textOrEmpty(dev.Product),
		VBIOS: textOrEmpty(dev.VBIOS), MIG: migMode(dev.MIG), Health: protocol.Healthy,
	}
	if minor, ok := integer(string(dev.Minor)); ok {
		g.Index = int(minor)
	}
	if pci := textOrEmpty(dev.PCI); pci != "" {
		g.PCI = health.PCIAddress(pci)
	}
	g.MemoryMiB = quantity(dev.Total, "MiB")
	g.UsedMiB = quantity(dev.Used, "MiB")
	g.PowerLimitMW = milliwatts(dev.Limit, dev.OldLimit)
	g.PowerMW = milliwatts(dev.Draw, dev.AvgDraw, dev.OldDraw)
	util, read := quantityOf(dev.Util, "%")
	if !read {
		util = protocol.UnreadUtilisation // zero would be an idle GPU
	}
	celsius := quantity(dev.Temp, "C")
	g.Utilisation, g.Celsius = int(util), int(celsius)
	for _, p := range dev.Processes {
		if strings.Contains(p.Type, "C") { // graphics alone is the display of the host OS
			g.Processes++
		}
	}
	dev.lowerHealth(&g)
	return g, nil
}

// textOrEmpty is the value, or empty when the tool gave a reason instead of one.
func textOrEmpty(s string) string {
	s = strings.TrimSpace(s)
	switch lower := strings.ToLower(s); {
	case lower == "n/a", lower == "[n/a]", lower == "none", strings.Contains(lower, "not supported"),
		strings.Contains(lower, "unknown error"), strings.Contains(lower, "insufficient permissions"), isLost(s):
		return ""
	}
	const longest = 128 // of any value that we read; a longer one is no value
	if len(s) > longest {
		return ""
	}
	return s
}

func isLost(s string) bool { return strings.Contains(strings.ToLower(s), "gpu is lost") }

func migMode(s string) string {
	switch mode := strings.ToLower(textOrEmpty(s)); mode {
	case "enabled", "disabled":
		return mode
	}
	return ""
}

func integer(s string) (int64, bool) {
	n, err := strconv.ParseInt(textOrEmpty(s), 10, 32)
	return n, err == nil && n >= 0
}

// quantity reads "81559 MiB".
func quantity(s, unit string) int64 {
	n, _ := quantityOf(s, unit)
	return n
}

// quantityOf also reports whether the text is a quantity.
func quantityOf(s, unit string) (int64, bool) {
	number, ok := strings.CutSuffix(textOrEmpty(s), " "+unit)
	if !ok {
		return 0, false
	}
	return integer(number)
}

// milliwatts returns the first value that has the form "700.00 W".
func milliwatts(texts ...string) int64 {
	for _, s := range texts {
		number, ok := strings.CutSuffix(textOrEmpty(s), " W")
		if !ok {
			continue
		}
		watts, err := strconv.ParseFloat(number, 64)
		if err == nil && watts >= 0 && watts < math.MaxInt32 {
			return int64(math.Round(watts * 1000))
		}
	}
	return 0
}

var errNoOutput = errors.New("nvidia-smi printed nothing")
