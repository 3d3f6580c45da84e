package matrix_test

// changes are the tables that a permitted call may write beside its audit row.
var changes = map[string][]string{
	"createAllocation": {"allocations", "allocation_transitions", "slot_claims", "slots", "desired_objects", "reconcile_due", "outbox_events"},
}
