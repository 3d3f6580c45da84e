package oapi

// Section is one part of a read model. It shows the document of one operation of /api/v1, or says why it cannot.
type Section[T any] struct {
	Status    SectionStatus   `json:"status"`
	Operation string          `json:"operation"`
	Reason    *SectionReason  `json:"reason,omitempty"`
	Message   *string         `json:"message,omitempty"`
	RunbookID *SectionRunbook `json:"runbook_id,omitempty"`
	Data      *T              `json:"data,omitempty"`
}
