package storage

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"storage_objects", "storage_usage", "storage_reservations", "storage_uploads", "storage_parts", "storage_checks"}, map[string]string{
		"selectPath": selectPath, "lockProject": lockProject, "insertRoot": insertRoot, "updateUsage": updateUsage, "selectUsage": selectUsage,
		"insertReservation": insertReservation, "updateReservation": updateReservation, "endReservation": endReservation, "useReservation": useReservation, "leaveObject": leaveObject,
		"insertObject": insertObject, "replaceFile": replaceFile, "setMetadata": setMetadata, "growFolder": growFolder, "moveObject": moveObject, "trashObject": trashObject, "untrashObject": untrashObject,
		"purgeNow": purgeNow, "isEmpty": isEmpty, "selectTrash": selectTrash, "selectInTrash": selectInTrash, "selectFolders": selectFolders,
		"selectPurge": selectPurge, "trashChildren": trashChildren, "deletePurged": deletePurged,
		"selectEnded": selectEnded, "emptyReservation": emptyReservation, "deleteReservation": deleteReservation, "cleanupDue": cleanupDue,
		"insertUpload": insertUpload, "countUploads": countUploads, "selectUpload": selectUpload, "lockUpload": lockUpload, "selectUploads": selectUploads, "selectAny": selectAny,
		"extendUpload": extendUpload, "storeHash": storeHash, "finishUpload": finishUpload, "deleteParts": deleteParts, "abortUpload": abortUpload, "selectParts": selectParts,
		"selectArrived": selectArrived, "partsExpected": partsExpected, "selectReserved": selectReserved, "growReservation": growReservation, "reservePart": reservePart,
		"storePart": storePart, "expectParts": expectParts, "partsArrived": partsArrived, "partsLost": partsLost, "selectExpired": selectExpired, "expireUpload": expireUpload,
		"deleteUpload": deleteUpload,
		"lockProjects": lockProjects, "endUploadsOf": endUploadsOf, "purgeTenant": purgeTenant,
		"lockEmpty": lockEmpty, "openUploads": openUploads, "selectTotals": selectTotals, "tenantStores": tenantStores,
	})
}
