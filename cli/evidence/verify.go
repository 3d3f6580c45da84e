package evidence

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
)

const verifyText = `Verifies bundles without a server and without a network: the form of each file, its signature by a
key of the key file, the digest of each part, and that bundles with following numbers follow one
another. The command ends with 1 and names the file and the place of a difference.

A key file has a line for each key: its id and the key in base64 (gpuaas evidence get --key-file).
During and after a rotation it has several lines. --at-head is the digest of the newest bundle, as
you know it from elsewhere: then no bundle may be missing from the first file up to it.`

// verified is the result of one file.
type verified struct {
	File   string `json:"file"`
	Number int64  `json:"number,omitempty"`
	Kind   string `json:"kind,omitempty"`
	About  string `json:"about,omitempty"`
	KeyID  string `json:"key_id,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Fault  string `json:"fault,omitempty"`
}

func newEvidenceVerify(a *output.Console) *cobra.Command {
	var keyFile, head string
	cmd := &cobra.Command{
		Use: "verify FILE…", Short: "Verify evidence bundles offline", Args: cobra.MinimumNArgs(1), Long: verifyText,
		Example: "  gpuaas evidence verify bundle.json --key evidence.keys\n  gpuaas evidence verify *.json --key evidence.keys --at-head 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		RunE: func(_ *cobra.Command, args []string) error {
			keys, err := readKeys(keyFile)
			if err != nil {
				return err
			}
			if head != "" && !isDigest.MatchString(head) {
				return errs.Invalid("at-head", "%q is no SHA-256 in 64 lower-case hexadecimal digits", head)
			}
			return verifyFiles(a, args, keys, head)
		},
	}
	cmd.Flags().StringVar(&keyFile, "key", "", "file with the trusted public keys")
	cmd.Flags().StringVar(&head, "at-head", "", "SHA-256 of the newest bundle")
	return cmd
}

var isDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

func readKeys(file string) (bundle.Keys, error) {
	if file == "" {
		return nil, output.UsageError("set --key to a file with the trusted public keys")
	}
	text, err := readBounded(file, maxKeyFile)
	if err != nil {
		return nil, errs.Invalid("key", "%v", err)
	}
	keys, err := bundle.ParseKeys(text)
	if err != nil {
		return nil, errs.Invalid("key", "%s: %v", file, err)
	}
	return keys, nil
}

// maxKeyFile has the keys of ten thousand rotations.
const maxKeyFile = 1 << 20

// readBounded reads at most one byte more than allowed, so that a large file needs no memory.
func readBounded(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", file, most)
	}
	return text, err
}

func verifyFiles(a *output.Console, files []string, keys bundle.Keys, head string) error {
	var sound []bundle.Bundle
	var faults []string
	results := make([]verified, len(files))
	for i, file := range files {
		b, err := openFile(file, keys)
		results[i] = verified{File: file, Number: b.Predicate.Number, Kind: string(b.Predicate.Kind), About: b.Predicate.About, KeyID: b.KeyID, SHA256: b.SHA256}
		if err != nil {
			results[i].Fault = err.Error()
			faults = append(faults, file+": "+err.Error())
			continue
		}
		b.Content = bundle.Content{Predicate: b.Predicate}
		b.Predicate.Parts = nil // thousands of files would need much memory
		sound = append(sound, b)
	}
	if len(faults) > 0 { // a file that is not valid is missing in the chain
		head = ""
	}
	gaps, broken := bundle.Chain(sound, head)
	if broken != nil {
		faults = append(faults, broken.Error())
	}
	if err := showVerified(a, results, faults); err != nil {
		return err
	}
	for _, g := range gaps {
		a.Notify("%s The bundles %d to %d were not given: nothing shows that bundle %d follows bundle %d.", output.SymbolWarn, g.From, g.To, g.To+1, g.From-1)
	}
	if len(faults) == 0 {
		return nil
	}
	return &output.CommandError{
		Message: faults[0], Code: output.CodeFindings, Try: "store the files, and compare them with another copy", Correlation: a.Correlation, Exit: output.ExitFailure,
	}
}

func openFile(file string, keys bundle.Keys) (bundle.Bundle, error) {
	text, err := readBounded(file, bundle.MaxSize)
	if err != nil {
		if path, ok := errors.AsType[*os.PathError](err); ok {
			err = path.Err
		}
		return bundle.Bundle{}, fmt.Errorf("cannot be read: %w", err)
	}
	return bundle.Open(text, keys)
}

func showVerified(a *output.Console, results []verified, faults []string) error {
	t := output.Table{Head: []string{"FILE", "NUMBER", "KIND", "STATUS", "ABOUT"}, Wide: []string{"SHA256", "KEY"}}
	for _, r := range results {
		status := output.SymbolGood + " whole"
		if r.Fault != "" {
			status = output.SymbolBad + " not valid"
		}
		t.Add("file/"+r.File, output.CellText(r.File), strconv.FormatInt(r.Number, 10), output.OrDash(output.CellText(r.Kind)), status, output.OrDash(output.CellText(r.About)),
			output.OrDash(r.SHA256), output.OrDash(output.CellText(r.KeyID)))
	}
	document, err := output.Encode(map[string]any{"files": results, "faults": append([]string{}, faults...)})
	if err != nil {
		return err
	}
	if err := a.Show(document, t); err != nil {
		return err
	}
	for _, f := range faults {
		a.Notify("%s %s", output.SymbolBad, f)
	}
	return nil
}
