package listing

import "github.com/gpuaas/gpuaas/product/storage"

const (
	selectByName = `
	SELECT ` + storage.ObjectColumns + ` FROM storage_objects WHERE parent_id = $1 AND deleted_at IS NULL AND sort_key > $2 ORDER BY sort_key LIMIT $3`
	selectByTime = `
	SELECT ` + storage.ObjectColumns + ` FROM storage_objects
	WHERE parent_id = $1 AND deleted_at IS NULL AND (updated_at, id) < ($2, $3) ORDER BY updated_at DESC, id DESC LIMIT $4`
	selectFolder = `SELECT ` + storage.ObjectColumns + ` FROM storage_objects WHERE parent_id = $1 AND sort_key = $2 AND deleted_at IS NULL`
)
