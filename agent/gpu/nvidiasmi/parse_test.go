package nvidiasmi_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/agent/gpu/nvidiasmi"
	"github.com/gpuaas/gpuaas/protocol"
)

// captures is the folder of outputs of real nodes. Their licence does not permit a copy, so a checkout without them
// skips.
func captures(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("GPUAAS_TESTDATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	dir = filepath.Join(dir, "nvidia-smi")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no nvidia-smi captures: set GPUAAS_TESTDATA to the folder that contains nvidia-smi/ (%v)", err)
	}
	return dir
}

func TestCapturesOfRealMachines(t *testing.T) {
	t.Parallel()

	dir := captures(t)
	type expect struct {
		driver, cuda string
		count        int
		first        protocol.GPU
		unhealthy    []string // reasons of the first
	}
	for name, want := range map[string]expect{
		"h100.xml": {"580.105.08", "13.0", 8, protocol.GPU{
			UUID: "GPU-00000000-0000-0000-0000-000000000000", Serial: "1650000000001", Model: "NVIDIA H100 80GB HBM3", PCI: "0000:53:00.0",
			MemoryMiB: 81559, VBIOS: "96.00.99.00.01", MIG: "disabled", PowerLimitMW: 700000, PowerMW: 68920, Celsius: 29, Health: protocol.Healthy,
		}, nil},
		"a100.xml": {"570.148.08", "12.8", 1, protocol.GPU{
			UUID: "GPU-00000000-0000-0000-0000-000000000000", Serial: "1650000000001", Model: "NVIDIA A100-SXM4-40GB", PCI: "0000:06:00.0",
			MemoryMiB: 40960, VBIOS: "92.00.45.00.03", MIG: "disabled", PowerLimitMW: 400000, Health: protocol.Healthy,
		}, nil},
		"l40s.xml": {"595.91.07", "13.2", 1, protocol.GPU{
			UUID: "GPU-00000000-0000-0000-0000-000000000000", Serial: "1650000000001", Model: "NVIDIA L40S", PCI: "0000:30:00.0",
			MemoryMiB: 46068, VBIOS: "95.02.66.00.15", PowerLimitMW: 350000, Health: protocol.Healthy,
		}, nil},
		"t4.xml": {"595.91.07", "13.2", 1, protocol.GPU{
			UUID: "GPU-00000000-0000-0000-0000-000000000000", Serial: "1650000000001", Model: "Tesla T4", PCI: "0000:00:1e.0",
			MemoryMiB: 15360, VBIOS: "90.04.96.00.02", PowerLimitMW: 70000, Health: protocol.Healthy,
		}, nil},
		"a100-healthy.xml": {"550.163.01", "12.4", 2, protocol.GPU{
			UUID: "GPU-12345678-1234-1234-1234-123456780000", Serial: "1324821083800", Model: "NVIDIA A100-SXM4-40GB", PCI: "0000:07:00.0",
			MemoryMiB: 40960, VBIOS: "92.00.45.00.03", MIG: "disabled", PowerLimitMW: 400000, PowerMW: 259170, Celsius: 63, Utilisation: 50, Health: protocol.Healthy,
		}, nil},
		"gb200-healthy.xml": {"580.65.06", "13.0", 2, protocol.GPU{
			UUID: "GPU-b200b200-0000-0000-0000-000000000000", Serial: "1562849103700", Model: "NVIDIA GB200", PCI: "0000:0a:00.0",
			MemoryMiB: 196608, VBIOS: "96.00.9E.00.01", MIG: "disabled", PowerLimitMW: 1000000, Utilisation: 50, Health: protocol.Healthy,
		}, nil},
		"gb200-ecc-injected.xml": {"580.65.06", "13.0", 2, protocol.GPU{
			UUID: "GPU-b200b200-0000-0000-0000-000000000000", Serial: "1562849103700", Model: "NVIDIA GB200", PCI: "0000:0a:00.0",
			MemoryMiB: 196608, VBIOS: "96.00.9E.00.01", MIG: "disabled", PowerLimitMW: 1000000, Utilisation: 50, Health: protocol.Unhealthy,
		}, []string{"row remap failed", "5 uncorrected memory errors"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			f, err := os.Open(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got, err := nvidiasmi.Parse(f)
			if err != nil {
				t.Fatal(err)
			}
			if got.Driver != want.driver || got.CUDA != want.cuda || len(got.GPUs) != want.count {
				t.Errorf("driver %s, CUDA %s, %d GPUs", got.Driver, got.CUDA, len(got.GPUs))
			}
			want.first.Reasons = want.unhealthy
			// Readings of the moment are compared with the expected ones if there are any, or else with bounds.
			first := got.GPUs[0]
			if want.first.PowerMW == 0 {
				first.PowerMW, first.Celsius = 0, 0
			}
			if d := cmp.Diff(want.first, first); d != "" {
				t.Error(d)
			}
			for i, g := range got.GPUs {
				if g.Index != i || g.Celsius <= 0 || g.PowerMW <= 0 || g.PCI == "" {
					t.Errorf("GPU %d: %+v", i, g)
				}
				if i > 0 && g.Health != protocol.Healthy {
					t.Errorf("GPU %d is %s: %v", i, g.Health, g.Reasons)
				}
			}
		})
	}
}

func TestALostGPUOfARealMachine(t *testing.T) {
	t.Parallel()

	f, err := os.Open(filepath.Join(captures(t), "gb200-lost.xml"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := nvidiasmi.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	var lost int
	for _, g := range got.GPUs {
		if g.Health == protocol.Unhealthy && len(g.Reasons) > 0 && g.Reasons[0] == "lost: fallen off the bus" && g.MemoryMiB == 0 {
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("%d lost GPUs in %+v", lost, got.GPUs)
	}
}

func TestValuesThatAreMissing(t *testing.T) {
	t.Parallel()

	f, err := os.Open("testdata/mig.xml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := nvidiasmi.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	want := []protocol.GPU{{
		Index: 3, UUID: "GPU-0000aaaa-0000-0000-0000-000000000001", Serial: "1", Model: "NVIDIA A100-SXM4-40GB", PCI: "0000:1b:00.0",
		MemoryMiB: 40960, UsedMiB: 12, VBIOS: "92.00.45.00.03", MIG: "enabled", PowerLimitMW: 400000, PowerMW: 61250, Celsius: 41, Utilisation: protocol.UnreadUtilisation, Processes: 2, Health: protocol.Healthy,
	}, {
		Index: 1, UUID: "GPU-0000aaaa-0000-0000-0000-000000000002", Utilisation: protocol.UnreadUtilisation, Health: protocol.Unhealthy,
		Reasons: []string{"driver requests recovery: drain and reset", "3 uncorrected memory errors", "row remap waits for a reset", "slowed down by heat"},
	}}
	if d := cmp.Diff(want, got.GPUs); d != "" {
		t.Error(d)
	}
}

func oneLine(fields string) string {
	return `<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu><uuid>GPU-0000aaaa-0000-0000-0000-000000000001</uuid>` + fields + `</gpu></nvidia_smi_log>`
}

// A device whose memory cannot be read is not healthy.
func TestSilentGPUIsNotHealthy(t *testing.T) {
	t.Parallel()

	got, err := nvidiasmi.Parse(strings.NewReader(oneLine("")))
	if err != nil || got.GPUs[0].Health != protocol.Unknown {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestHostileOutput(t *testing.T) {
	t.Parallel()

	bomb := `<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>`
	second := `<gpu><uuid>GPU-0000aaaa-0000-0000-0000-000000000001</uuid></gpu>`
	for rule, text := range map[string]string{
		"empty":               "",
		"another document":    "<html><body>driver mismatch</body></html>",
		"plain text":          "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
		"cut off":             oneLine("")[:100],
		"cut off between":     strings.TrimSuffix(oneLine(""), "</nvidia_smi_log>"),
		"entity bomb":         bomb + oneLine("<serial>&c;</serial>"),
		"external entity":     `<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>` + oneLine("<serial>&e;</serial>"),
		"fewer than attached": `<nvidia_smi_log><attached_gpus>8</attached_gpus></nvidia_smi_log>`,
		"no count":            `<nvidia_smi_log></nvidia_smi_log>`,
		"no UUID":             `<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu><uuid>N/A</uuid></gpu></nvidia_smi_log>`,
		"one UUID twice":      strings.Replace(strings.Replace(oneLine(""), "<gpu>", second+"<gpu>", 1), ">1<", ">2<", 1),
		"not UTF-8":           oneLine("<serial>\xff\xfe</serial>"),
		"deep":                `<nvidia_smi_log>` + strings.Repeat("<a>", 1<<20),
		"deep in a GPU":       `<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu>` + strings.Repeat("<a>", 1<<20),
		"many GPUs":           `<nvidia_smi_log>` + manyGPUs(300) + `<attached_gpus>300</attached_gpus></nvidia_smi_log>`,
	} {
		if got, err := nvidiasmi.Parse(strings.NewReader(text)); err == nil {
			t.Errorf("%s: parsed as %+v", rule, got)
		}
	}
}

// Threat: a process whose name has line breaks forges values of its GPU, or of another one.
func TestANameForgesNoValue(t *testing.T) {
	t.Parallel()
	const (
		gpu    = "\t<gpu id=\"%d\">\n<uuid>GPU-0000aaaa-0000-0000-0000-00000000000%[1]d</uuid>\n<minor_number>%[1]d</minor_number>\n<processes>\n%s</processes>\n</gpu>\n"
		list   = "<process_info>\n<pid>10</pid>\n<type>C</type>\n<process_name>%s</process_name>\n<used_memory>1 MiB</used_memory>\n</process_info>\n"
		leaves = "x</process_name>\n</process_info>\n</processes>\n"
		begins = "<processes>\n<process_info>\n<process_name>y"
	)
	for name, forged := range map[string]bool{
		"python": false, "<!--": false, "x\n</process_info>\n<y>": false, leaves[:len(leaves)-len("</processes>\n")] + "<process_info>\n<process_name>y": false,
		leaves: true, leaves + "<minor_number>7</minor_number>\n" + begins: true, leaves + "<!--": true,
		leaves + "<uuid>GPU-0000aaaa-0000-0000-0000-000000000007</uuid>\n" + begins:                       true,
		leaves + "</gpu>\n<gpu id=\"7\">\n" + begins:                                                      true,
		leaves + "</gpu>\n<foo>\n<gpu>\n" + begins:                                                        true,
		leaves + "<attached_gpus>9</attached_gpus>\n</gpu>\n<gpu>\n" + begins:                             true,
		leaves + "</gpu>\n<gpu><uuid>GPU-0000aaaa-0000-0000-0000-000000000009</uuid><a>\n" + begins:       true,
		leaves + "</gpu>\n</nvidia_smi_log>\n<nvidia_smi_log>\n<gpu>\n<attached_gpus>2\n" + begins + "\n": true,
	} {
		text := "<nvidia_smi_log>\n<attached_gpus>2</attached_gpus>\n" + fmt.Sprintf(gpu, 0, fmt.Sprintf(list, name)) + fmt.Sprintf(gpu, 1, "") + "</nvidia_smi_log>\n"
		got, err := nvidiasmi.Parse(strings.NewReader(text))
		if forged && err == nil || !forged && (err != nil || len(got.GPUs) != 2 || got.GPUs[0].Index != 0 || got.GPUs[0].Processes != 1) {
			t.Errorf("%q: %v, %+v", name, err, got)
		}
	}
	for _, twice := range []string{"<uuid>x</uuid>", "<minor_number>1</minor_number><minor_number>2</minor_number>"} {
		if got, err := nvidiasmi.Parse(strings.NewReader(oneLine(twice))); err == nil || !strings.Contains(err.Error(), "a GPU has two") {
			t.Errorf("%s: %v, %+v", twice, err, got)
		}
	}
}

func manyGPUs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `<gpu><uuid>GPU-%08x-0000-0000-0000-000000000001</uuid></gpu>`, i)
	}
	return b.String()
}

func TestEndlessOutputIsCut(t *testing.T) {
	t.Parallel()

	endless := io.MultiReader(strings.NewReader("<nvidia_smi_log><serial>"), zeros{})
	if _, err := nvidiasmi.Parse(endless); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func FuzzParse(f *testing.F) {
	f.Add(oneLine("<serial>1</serial>"))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := nvidiasmi.Parse(strings.NewReader(text))
		for _, g := range got.GPUs {
			if err == nil && (g.UUID == "" || g.Health == "") {
				t.Errorf("%+v", g)
			}
		}
	})
}

func TestLinks(t *testing.T) {
	t.Parallel()

	gpus := []protocol.GPU{{UUID: "GPU-0000aaaa-0000-0000-0000-000000000001"}, {UUID: "GPU-0000aaaa-0000-0000-0000-000000000002"}}
	text := `GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0000aaaa-0000-0000-0000-000000000001)
	 Link 0: 26.562 GB/s
	 Link 1: 26.562 GB/s
	 Link 2: <inactive>
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-0000aaaa-0000-0000-0000-000000000009)
	 Link 0: 26.562 GB/s
`
	if err := nvidiasmi.ParseLinks(strings.NewReader(text), gpus); err != nil || gpus[0].NVLinks != 2 || gpus[1].NVLinks != 0 {
		t.Errorf("%+v, %v", gpus, err)
	}
}

func tool(t *testing.T, script string) *nvidiasmi.Tool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return &nvidiasmi.Tool{Path: path, Within: 10 * time.Second}
}

func TestToolThatMisbehaves(t *testing.T) {
	t.Parallel()

	for rule, c := range map[string]struct{ script, says string }{
		"fails":          {"exit 9", "exit status 9"},
		"prints nothing": {"exit 0", "nothing"},
		"never stops":    {"exec yes", "more than"},
		"not installed":  {"", "no such file"},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()

			smi := tool(t, c.script)
			if c.script == "" {
				smi.Path += "-absent"
			}
			if _, err := smi.Inventory(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}

	hung := tool(t, "sleep 60")
	hung.Within = 50 * time.Millisecond
	if _, err := hung.Inventory(t.Context()); err == nil || !strings.Contains(err.Error(), "did not respond") {
		t.Errorf("hung: %v", err)
	}
	if _, err := (&nvidiasmi.Tool{Path: "nvidia-smi"}).Inventory(t.Context()); err == nil {
		t.Error("searched the path")
	}
}

func TestToolThatWorks(t *testing.T) {
	t.Parallel()

	smi := tool(t, `[ "$1" = nvlink ] && exit 1; cat <<X
`+oneLine("<fb_memory_usage><total>100 MiB</total></fb_memory_usage>")+`
X
`)
	got, err := smi.Inventory(t.Context())
	if err != nil || len(got.GPUs) != 1 || got.Hostname == "" || got.GPUs[0].Health != protocol.Healthy {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzLinks(f *testing.F) {
	f.Add("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0000aaaa-0000-0000-0000-000000000001)\n\t Link 0: 26.562 GB/s\n")
	f.Fuzz(func(_ *testing.T, text string) {
		_ = nvidiasmi.ParseLinks(strings.NewReader(text), []protocol.GPU{{UUID: "GPU-0000aaaa-0000-0000-0000-000000000001"}})
	})
}

func FuzzMatrix(f *testing.F) {
	f.Add("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-31\nGPU1\tNV12\t X \t0-31\n")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = nvidiasmi.ParseMatrix(strings.NewReader(text), []string{"0000:1b:00.0", "0000:1c:00.0"})
	})
}
