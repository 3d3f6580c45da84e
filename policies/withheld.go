package policies

import "slices"

// withheld lists the operations that no role of the platform allows: neither "*" nor a Role object includes them.
var withheld = []string{
	"getAllocationLogs", "listTerminalRecordings", "getTerminalRecording",
	"listStorage", "statStorage", "downloadStorage", "uploadStorage", "createStorageFolder", "renameStorage", "copyStorage", "deleteStorage", "restoreStorage",
	"getStorageUsage", "downloadStorageFolder", "signStorageUrl",
	"listStorageKeys", "getStorageKey", "createStorageKey", "deleteStorageKey",
	"listStorageUploads", "getStorageUpload", "listStorageUploadParts", "createStorageUpload", "abortStorageUpload", "signStorageParts", "uploadStoragePart", "completeStorageUpload",
}

// Withheld reports whether no role of the platform allows an operation.
func Withheld(operation string) bool { return slices.Contains(withheld, operation) }
