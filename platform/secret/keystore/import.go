package keystore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaas/internal/pki"
)

// oldKeys reads the key files of a release that had the keys in the state directory, and returns the files.
// Such installations are development installations.
func oldKeys(dir, purpose string) (keys []pki.Stored, files []string, err error) {
	switch purpose {
	case PurposeAuthority:
		return oldAuthority(filepath.Join(dir, "ca"))
	case PurposeTasks:
		return oldSigning(filepath.Join(dir, "keys"))
	case PurposeLogins:
		return oldSigning(filepath.Join(dir, "login-keys"))
	case PurposeTokens:
		return oldSigning(filepath.Join(dir, "token-keys"))
	case PurposeCursors:
		path := filepath.Join(dir, "cursor.key")
		key, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, nil
		}
		return []pki.Stored{{Number: 1, Private: key}}, []string{path}, err
	}
	return nil, nil, nil
}

func oldSigning(dir string) (keys []pki.Stored, files []string, err error) {
	keys, err = pki.Dir{Path: dir, Prefix: "order"}.Read(context.Background())
	for i, key := range keys {
		private, err := pki.ParseSigningKey(key.Private)
		if err != nil {
			return nil, nil, fmt.Errorf("reading key %d of %s: %w", key.Number, dir, err)
		}
		keys[i].Public = pki.PublicOf(private)
		files = append(files, filepath.Join(dir, fmt.Sprintf("order-%04d.pem", key.Number)))
	}
	return keys, files, err
}

// oldAuthority reads generations that were two files each. The first one had names without a number.
func oldAuthority(dir string) (keys []pki.Stored, files []string, err error) {
	roots, err := filepath.Glob(filepath.Join(dir, "root*.pem"))
	if err != nil {
		return nil, nil, fmt.Errorf("listing authorities: %w", err)
	}
	for _, root := range roots {
		n, issuing := 1, filepath.Join(dir, "issuing.pem")
		if _, err := fmt.Sscanf(filepath.Base(root), "root-%04d.pem", &n); err == nil {
			issuing = filepath.Join(dir, fmt.Sprintf("issuing-%04d.pem", n))
		}
		first, err := os.ReadFile(root)
		if err != nil {
			return nil, nil, fmt.Errorf("reading authority: %w", err)
		}
		second, err := os.ReadFile(issuing)
		if errors.Is(err, fs.ErrNotExist) {
			continue // half made: it was never used
		} else if err != nil {
			return nil, nil, fmt.Errorf("reading authority: %w", err)
		}
		key, err := pki.EncodeAuthority(n, first, second)
		if err != nil {
			return nil, nil, err
		}
		keys, files = append(keys, key), append(files, root, issuing)
	}
	return keys, files, nil
}

// discard removes the files whose keys are stored now, and the sealing key, which nothing uses any more.
func (p Preparation) discard(ctx context.Context, imported []string) {
	if len(imported) == 0 {
		return
	}
	for _, path := range append(imported, filepath.Join(p.StateDir, "seal.key")) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.Log.WarnContext(ctx, "a key file was imported and cannot be removed: remove it", "component", "keys", "path", path, "err", err)
		}
	}
	p.Log.InfoContext(ctx, "key files were imported into the database and removed", "component", "keys", "files", len(imported))
}
