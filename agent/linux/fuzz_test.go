package linux_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent/linux"
	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

const twoCards = `<?xml version="1.0" ?>
<nvidia_smi_log>
	<attached_gpus>2</attached_gpus>
	<gpu id="00000000:41:00.0">
		<uuid>GPU-00000000-0000-0000-0000-000000000001</uuid>
		<minor_number>0</minor_number>
		<compute_mode>Default</compute_mode>
		<fb_memory_usage><total>81559 MiB</total><used>1 MiB</used></fb_memory_usage>
		<processes>
			<process_info>
				<pid>1000</pid>
				<type>C</type>
				<process_name>NAME</process_name>
				<used_memory>100 MiB</used_memory>
			</process_info>
		</processes>
	</gpu>
	<gpu id="00000000:81:00.0">
		<uuid>GPU-00000000-0000-0000-0000-000000000002</uuid>
		<minor_number>1</minor_number>
		<compute_mode>Default</compute_mode>
		<fb_memory_usage><total>81559 MiB</total><used>1 MiB</used></fb_memory_usage>
		<processes>
		</processes>
	</gpu>
</nvidia_smi_log>
`

// hostileNames are names of processes that try to end their element.
var hostileNames = []string{
	"python", "a&b", "<", "\xff\xfe", "<!--", "]]>", "<![CDATA[", "x</process_name>", "x</process_name></process_info></processes><compute_mode>Prohibited</compute_mode><a><b><process_name>",
	"x</process_name><used_memory>1 MiB</used_memory></process_info><process_info><pid>1</pid><type>C</type><process_name>y",
	"x\ny", "x</process_name>\n\t\t</process_info>\n\t\t<minor_number>7</minor_number>\n\t\t<process_name>y",
	"x</process_name>\n</process_info>\n</processes>\n<minor_number>7</minor_number>\n<processes>\n<process_info>\n<process_name>y",
	"x</process_name>\n</process_info>\n</processes>\n</gpu>\n<gpu id=\"0\">\n<uuid>GPU-00000000-0000-0000-0000-000000000003</uuid>\n<processes>\n<process_info>\n<process_name>y",
	"x\n\t</gpu>\n\t<gpu>\n<uuid>GPU-00000000-0000-0000-0000-000000000002</uuid><minor_number>1</minor_number><compute_mode>Prohibited</compute_mode>\n",
}

// FuzzProcessNames: whatever a process is called, the cards of nvidia-smi are those without it. A name with a line
// break may make the output unreadable, and never other than it is.
func FuzzProcessNames(f *testing.F) {
	for _, name := range hostileNames {
		f.Add(name)
	}
	want, err := linux.ParseCards([]byte(twoCards))
	if err != nil || len(want) != 2 {
		f.Fatal(want, err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := linux.ParseCards([]byte(strings.Replace(twoCards, "NAME", name, 1)))
		if err != nil {
			if !strings.Contains(name, "\n") {
				t.Fatalf("%q: %v", name, err)
			}
			return
		}
		if linux.Cards(got) != linux.Cards(want) {
			t.Errorf("%q: %s\nwant %s", name, linux.Cards(got), linux.Cards(want))
		}
	})
}

func FuzzCards(f *testing.F) {
	f.Add([]byte(twoCards))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = linux.ParseCards(text) })
}

// FuzzSlice: a slice that systemd does not report as closed is open.
func FuzzSlice(f *testing.F) {
	f.Add("Id=user-200001.slice\nDevicePolicy=closed\nDeviceAllow=/dev/nvidia0 rw\nCPUWeight=[not set]\nMemoryMax=infinity\nTasksMax=4096\nDropInPaths=/etc/a /etc/b\n")
	f.Add("Id=user-1.slice\nId=user-2.slice\nDevicePolicy=\n")
	f.Fuzz(func(t *testing.T, block string) {
		if closed, opens := linux.SliceOpens(block, "/dev/nvidia3"); !closed && !opens {
			t.Errorf("%q is no closed slice, and counts as closed", block)
		}
	})
}

// FuzzRevoked: a list is read only if it is exactly what the agent writes.
func FuzzRevoked(f *testing.F) {
	f.Add(linux.Revocations(nil))
	f.Add(linux.Revocations([]uint64{1, 2, 1 << 63}))
	f.Fuzz(func(t *testing.T, list []byte) {
		serials, err := linux.Revoked(list)
		if err == nil && len(list) > 0 && !slices.Equal(linux.Revocations(serials), list) {
			t.Errorf("%x was read as %v", list, serials)
		}
	})
}

// FuzzKeyLines: what sshd reads is one plain key a line, whatever the tenant has registered.
func FuzzKeyLines(f *testing.F) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
	for _, line := range []string{key, key + " comment", `command="id" ` + key, key + "\n" + key, key + "\x00", "\t" + key, key + "\u2028" + key} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		text, err := linux.KeyLines([]string{line})
		if err != nil {
			return
		}
		_, comment, options, rest, err := ssh.ParseAuthorizedKey([]byte(text))
		if err != nil || comment != "" || len(options) > 0 || len(rest) > 0 || strings.Count(text, "\n") != 1 {
			t.Errorf("%q became %q", line, text)
		}
	})
}

// FuzzEffective: the first line of a key counts.
func FuzzEffective(f *testing.F) {
	f.Add("port 22\nusepam yes\nusepam no\n")
	f.Fuzz(func(t *testing.T, text string) {
		found := linux.ParseEffective([]byte("usepam yes\n" + text))
		if found["usepam"] != "yes" {
			t.Errorf("%q: usepam %q", text, found["usepam"])
		}
	})
}

// FuzzLoginFiles: the files of logins, as an intruder may have changed them.
func FuzzLoginFiles(f *testing.F) {
	f.Add("ssh-ed25519 AAAA\n# comment\n\n", "x\n")
	f.Fuzz(func(t *testing.T, keys, principals string) {
		h := &linux.Host{OS: hostos.OS{Root: t.TempDir()}}
		write(t, h, filepath.Join(linux.KeysDir, "u1"), keys)
		write(t, h, filepath.Join(linux.PrincipalsDir, "u1"), principals)
		found, _, err := h.InspectLogin("u1")
		if err == nil && len(found) == 0 && strings.Contains("\n"+keys, "\nssh-") {
			t.Errorf("%q has no keys", keys)
		}
	})
}

// FuzzCleanFile: a damaged list of scrubbed GPUs makes no GPU clean.
func FuzzCleanFile(f *testing.F) {
	f.Add([]byte(`["GPU-1"]`))
	f.Add(binary.BigEndian.AppendUint64(nil, 7))
	f.Fuzz(func(t *testing.T, text []byte) {
		h := &linux.Host{OS: hostos.OS{Root: t.TempDir()}}
		write(t, h, linux.StateDir+"/clean.json", string(text))
		if clean, err := h.Clean(); err == nil && clean["GPU-1"] && !strings.Contains(string(text), "GPU-1") && !strings.Contains(string(text), `\u`) {
			t.Errorf("%q makes a GPU clean", text)
		}
		_ = os.Remove(h.Path(linux.StateDir, "clean.json"))
	})
}
