package keystore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
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
	}
	return nil, nil, nil
}

func oldSigning(dir string) (keys []pki.Stored, files []string, err error) {
	keys, err = pki.Dir{Path: dir, Prefix: "order"}.Read(context.Background()) //nolint:forbidigo // files of this server
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

// discard removes the key files whose keys are stored, and the sealing key and the key of cursors, which have others now.
// Whatever cannot be removed is logged: the server starts.
func (p Preparation) discard(ctx context.Context) {
	var files []string
	for _, purpose := range p.stored() {
		keys, of, err := oldKeys(p.StateDir, purpose)
		if err == nil && len(keys) > 0 {
			err = p.allStored(ctx, purpose, keys)
		}
		if err != nil {
			p.Log.WarnContext(ctx, "key files of an earlier release stay: compare them with the keys in the database, and remove them",
				"component", "keys", "keys", purpose, "paths", of, "err", err)
			continue
		}
		files = append(files, of...)
	}
	for _, name := range []string{"seal.key", "cursor.key"} {
		if path := filepath.Join(p.StateDir, name); exists(path) {
			files = append(files, path)
		}
	}
	removed := 0
	for _, path := range files {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.Log.WarnContext(ctx, "a key file was imported and cannot be removed: remove it", "component", "keys", "path", path, "err", err)
			continue
		}
		removed++
	}
	if removed > 0 {
		p.Log.InfoContext(ctx, "key files were imported into the database and removed", "component", "keys", "files", removed)
	}
	if path := filepath.Join(p.StateDir, "release-keys"); exists(path) {
		p.Log.WarnContext(ctx, "a server has no release keys any more: create others in the build pipeline with gpuaas agent keys begin --keys-dir, "+
			"trust them with gpuaas agent trust, and remove this folder", "component", "keys", "path", path)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// allStored returns an error unless the database has all of these keys, in use or ended.
func (p Preparation) allStored(ctx context.Context, purpose string, keys []pki.Stored) error {
	have, err := (&secret.Stored{DB: p.DB}).PublicParts(ctx, purpose)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if !slices.ContainsFunc(have, func(one []byte) bool { return bytes.Equal(one, key.Public) }) {
			return fmt.Errorf("the database has another key %d", key.Number)
		}
	}
	return nil
}
