package nvidiasmi_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/gpu/nvidiasmi"
	"github.com/gpuaas/gpuaas/protocol"
)

// Every capture of a real node gives each GPU its slot, its MIG capability and its health report, and the same
// hardware each time.
func TestCapturesShowTheirCards(t *testing.T) {
	t.Parallel()
	dir := captures(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.xml"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	want := map[string]struct {
		link protocol.Link
		mig  string
		says string
	}{
		"h100.xml":               {protocol.Link{Width: 16, MaxWidth: 16, Speed: 32000, MaxSpeed: 32000}, "disabled", ""},
		"a100.xml":               {protocol.Link{Width: 16, MaxWidth: 16, Speed: 16000, MaxSpeed: 16000}, "disabled", ""},
		"l40s.xml":               {protocol.Link{Width: 8, MaxWidth: 16, Speed: 16000, MaxSpeed: 16000}, "unsupported", ""},
		"t4.xml":                 {protocol.Link{Width: 8, MaxWidth: 16, Speed: 8000, MaxSpeed: 8000}, "unsupported", ""},
		"gb200-ecc-injected.xml": {mig: "disabled", says: "row_remap_failed ecc_uncorrected"},
		"gb200-lost.xml":         {says: "row_remap_failed ecc_uncorrected gpu_lost"},
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			read := func() gpu.Reading {
				f, err := os.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				seen, err := nvidiasmi.Read(f)
				if err != nil {
					t.Fatal(err)
				}
				return seen
			}
			seen := read()
			if len(seen.Cards) != len(seen.GPUs) || len(seen.Health) < len(seen.GPUs) {
				t.Fatalf("%d cards, %d reports of %d GPUs", len(seen.Cards), len(seen.Health), len(seen.GPUs))
			}
			for i, c := range seen.Cards {
				if c.Minor != i || c.PCI == "" || c.UUID != seen.GPUs[i].UUID {
					t.Errorf("card %d: %+v", i, c)
				}
			}
			one := gpu.Merge(protocol.Topology{}, seen).Hardware().Fingerprint()
			if again := gpu.Merge(protocol.Topology{}, read()).Hardware().Fingerprint(); one != again || len(one) != 64 {
				t.Errorf("fingerprints %s and %s", one, again)
			}
			c := want[filepath.Base(path)]
			if c.link != (protocol.Link{}) && seen.Cards[0].Link != c.link || c.mig != "" && seen.Cards[0].MIG.State != c.mig {
				t.Errorf("link %+v, MIG %q", seen.Cards[0].Link, seen.Cards[0].MIG.State)
			}
			var said []string
			for _, h := range seen.Health {
				if h.Check != "" {
					said = append(said, h.Check)
				}
			}
			if got := strings.Join(said, " "); got != c.says {
				t.Errorf("reports %q, want %q", got, c.says)
			}
		})
	}
}

func TestMatrixOfGPUs(t *testing.T) {
	t.Parallel()
	text := "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n" +
		"GPU0\t X \tNV18\tSYS\tPIX\t0-31\t0\nGPU1\tNV18\t X \tNODE\tSYS\t0-31\t0\nGPU2\tSYS\tNODE\t X \tSYS\t32-63\t1\nNIC0\tPIX\tSYS\tSYS\t X \n\nLegend:\n  X = Self\n"
	peers, err := nvidiasmi.ParseMatrix(strings.NewReader(text), []string{"a", "b", "c"})
	if d := cmp.Diff([]protocol.Peer{{A: "a", B: "b", Way: "NV18"}, {A: "a", B: "c", Way: "SYS"}, {A: "b", B: "c", Way: "NODE"}}, peers); d != "" || err != nil {
		t.Errorf("%s%v", d, err)
	}
	for _, hostile := range []string{"", "GPU", "GPU9\tX", "GPUx X", strings.Repeat("GPU0\t", 1000), "GPU0 X ../../etc"} {
		if peers, err := nvidiasmi.ParseMatrix(strings.NewReader(hostile), []string{"a", "b"}); err != nil || len(peers) > 0 {
			t.Errorf("%.20q: %v, %v", hostile, peers, err)
		}
	}
}

func TestLinksThatAreDown(t *testing.T) {
	t.Parallel()
	const a, b = "GPU-0000aaaa-0000-0000-0000-000000000001", "GPU-0000aaaa-0000-0000-0000-000000000002"
	smi := tool(t, `case "$1" in
nvlink) printf 'GPU 0: H100 (UUID: `+a+`)\n Link 0: 26.562 GB/s\n Link 1: <inactive>\nGPU 1: H100 (UUID: `+b+`)\n Link 0: <inactive>\n' ;;
topo) exit 1 ;;
--gpu-reset) [ "$3" = `+a+` ] && exit 0; echo in use; exit 6 ;;
*) cat <<X
<nvidia_smi_log><attached_gpus>2</attached_gpus><gpu><uuid>`+a+`</uuid><fb_memory_usage><total>1 MiB</total></fb_memory_usage></gpu><gpu><uuid>`+b+`</uuid><fb_memory_usage><total>1 MiB</total></fb_memory_usage></gpu></nvidia_smi_log>
X
;; esac
`)
	seen, err := smi.See(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, h := range seen.Health {
		if h.Source == "nvlink" {
			said = append(said, h.Target+" "+h.Check)
		}
	}
	if d := cmp.Diff([]string{a + " nvlink_down", b + " "}, said); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]protocol.NVLink{{Link: 0, Up: true, MBps: 26562}, {Link: 1}}, seen.Cards[0].NVLinks); d != "" {
		t.Error(d)
	}
	if err := smi.Reset(t.Context(), a); err != nil {
		t.Error(err)
	}
	if err := smi.Reset(t.Context(), b); err == nil {
		t.Error("a reset that the tool rejected counts as done")
	}
	if err := smi.Reset(t.Context(), "all"); err == nil {
		t.Error("reset what has no UUID")
	}
}
