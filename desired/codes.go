package desired

// The codes of findings: what a program may branch on, and the rule id in the
// reports of CI. A code never changes its meaning.
const (
	// Files and names, checked before any content is read.
	CodeFileMode      = "file_mode"
	CodeSymlink       = "symlink"
	CodeSubmodule     = "submodule"
	CodeNameUnsafe    = "name_unsafe"
	CodeNameCollision = "name_collision"
	CodeFileTooLarge  = "file_too_large"
	CodeTreeTooLarge  = "tree_too_large"
	CodeTooManyFiles  = "too_many_files"
	CodeTooDeep       = "too_deep"
	CodeLFSPointer    = "lfs_pointer"
	CodeSourceEmpty   = "source_empty"
	// The repository as a whole.
	CodeRepositoryTooLarge = "repository_too_large"
	CodeMalformedObject    = "malformed_object"

	// Who wrote it.
	CodeSignatureRequired = "signature_required"
	CodeSignatureInvalid  = "signature_invalid"

	// Syntax.
	CodeYAMLSyntax     = "yaml_syntax"
	CodeJSONSyntax     = "json_syntax"
	CodeCUESyntax      = "cue_syntax"
	CodeNotUTF8        = "not_utf8"
	CodeYAMLTag        = "yaml_tag"
	CodeAliasLimit     = "alias_limit"
	CodeAmbiguousValue = "ambiguous_value"
	CodeDuplicateKey   = "duplicate_key"

	// CUE.
	CodeImportRejected  = "import_rejected"
	CodeToolFile        = "tool_file"
	CodePackageMixed    = "package_mixed"
	CodeCUEEvaluation   = "cue_evaluation"
	CodeNotConcrete     = "not_concrete"
	CodeLooseValue      = "loose_value"
	CodeEvaluationLimit = "evaluation_limit"
	CodeEvaluatorFailed = "evaluator_failed"

	// One object against its definition.
	CodeNotAnObject    = "not_an_object"
	CodeUnknownKind    = "unknown_kind"
	CodeUnknownField   = "unknown_field"
	CodeMissingField   = "missing_field"
	CodeWrongType      = "wrong_type"
	CodeOutOfRange     = "out_of_range"
	CodeInvalidValue   = "invalid_value"
	CodeInvalidName    = "invalid_name"
	CodeStatusDeclared = "status_declared"
	CodeSecretInClear  = "secret_in_clear"

	// Between objects.
	CodeDuplicateName       = "duplicate_name"
	CodeUnresolvedReference = "unresolved_reference"
	CodePolicyInvalid       = "policy_invalid"
	CodePolicyNotInForce    = "policy_not_in_force"
	CodeRoleInvalid         = "role_invalid"
	CodeOnlyOne             = "only_one"

	// Against what drivers and adapters deliver.
	CodeIsolationUnavailable  = "isolation_unavailable"
	CodeOnboardingUnavailable = "onboarding_unavailable"

	// Against what is in force.
	CodeManagedByAPI      = "managed_by_api"
	CodeManagedByGit      = "managed_by_git"
	CodeKindNotAllowed    = "kind_not_allowed"
	CodeNeedsReplacement  = "needs_replacement"
	CodeNodeInUse         = "node_in_use"
	CodePruneCap          = "prune_cap"
	CodePruneDisabled     = "prune_disabled"
	CodeUnderAllocations  = "under_allocations"
	CodeMassAction        = "mass_action"
	CodeDiverged          = "diverged"
	CodePolicyDenied      = "policy_denied"
	CodeAnnotationInvalid = "annotation_invalid"

	CodeRejected  = "rejected"
	CodeOvertaken = "overtaken"

	CodeMoreFindings = "more_findings"
)

// Rule describes the check behind a code.
type Rule struct {
	Code    string
	Meaning string // what was found
	Remedy  string // what to do
}

// Rules lists every code of a finding in the sequence of the checks.
func Rules() []Rule { return rules }

// RuleOf finds a rule by its code.
func RuleOf(code string) (Rule, bool) {
	for _, r := range rules {
		if r.Code == code {
			return r, true
		}
	}
	return Rule{}, false
}

var rules = []Rule{
	{CodeFileMode, "An entry of the tree is no ordinary file: it is executable, a device, or of a mode that Git no longer writes.", "Make it an ordinary file: `git update-index --chmod=-x FILE`."},
	{CodeSymlink, "An entry is a symbolic link, which could point anywhere.", "Commit the file itself."},
	{CodeSubmodule, "An entry is a submodule, which is another repository without a review here.", "Copy the files, or add the other repository as a Git source."},
	{CodeNameUnsafe, "A name points elsewhere, means Git's own folder on some system, has control characters, or is not in normal form C.", "Rename the file according to its content."},
	{CodeNameCollision, "Two names are one on systems that ignore case or compose characters.", "Rename one of them."},
	{CodeFileTooLarge, "A file is larger than `gitops.max_file_bytes`.", "Split the file, or remove content that does not describe the fleet."},
	{CodeTreeTooLarge, "All objects together are larger than `gitops.max_tree_bytes`.", "Split the source, or raise the limit."},
	{CodeTooManyFiles, "The tree has more files than `gitops.max_files`.", "Split the source, or raise the limit."},
	{CodeTooDeep, "Folders or values are nested too deeply.", "Use a flatter layout."},
	{CodeLFSPointer, "A file is a pointer of Git LFS; its content is elsewhere.", "Store the files in Git itself."},
	{CodeSourceEmpty, "The tree contains no object. Applying it would remove the fleet. A wrong folder is the usual cause.", "Check the branch and the folders of the source."},
	{CodeRepositoryTooLarge, "The fetch of the repository would need more memory, disk or time than fleet files do: its history or a pack contains a large file.", "Store the fleet in its own repository."},
	{CodeMalformedObject, "A commit or tree is complete, but Git would not write it in this form. Two readers could interpret it differently.", "Create the commit again with git."},

	{CodeSignatureRequired, "The commit is not signed, and the source demands it.", "Sign the commit: `git commit -S`."},
	{CodeSignatureInvalid, "The commit's signature is not one that the source accepts: another key, expired, another namespace, or about another tree.", "Sign with a key that the source's `verify` lists, within its time."},

	{CodeYAMLSyntax, "The file is no YAML.", "Correct the named place; indentation is the usual cause."},
	{CodeJSONSyntax, "The file is no JSON.", "Correct the named place."},
	{CodeCUESyntax, "The file is no CUE.", "Correct the named place; `cue vet` prints the same error."},
	{CodeNotUTF8, "Text is not UTF-8.", "Save the file as UTF-8 without a byte order mark."},
	{CodeYAMLTag, "A value has a YAML tag, whose meaning differs between readers.", "Write plain YAML."},
	{CodeAliasLimit, "The file uses an anchor or alias. A few lines of them can expand to gigabytes.", "Write the value out; repetition belongs in CUE files."},
	{CodeAmbiguousValue, "Readers interpret this number differently: it starts with a zero, is not finite, or is too large.", "Write a plain number, or text in quotes."},
	{CodeDuplicateKey, "A mapping contains a key twice. Readers differ in which value they use.", "Remove one of them."},

	{CodeImportRejected, "A CUE file imports another module, or embeds a file. The server reads no file outside the folder.", "Use the packages of CUE itself, or copy the content."},
	{CodeToolFile, "The file is for CUE's own tools, and could run programs.", "Move it out of the folders of the source."},
	{CodePackageMixed, "The CUE files of one folder are of different packages.", "Give them one package clause, or folders of their own."},
	{CodeCUEEvaluation, "CUE cannot evaluate the file: a conflict, an unknown name, or a cycle.", "Correct the places that are named."},
	{CodeNotConcrete, "A value is still open: it could be one of several.", "Choose one."},
	{CodeLooseValue, "A top-level field is neither an object nor a list or struct of objects.", "Begin helpers with `_` or `#`."},
	{CodeEvaluationLimit, "Evaluating took more memory or time than a fleet needs.", "Simplify the expression; it exceeds the limits of the evaluation."},
	{CodeEvaluatorFailed, "The evaluator broke down on these files.", "Simplify the expressions, and report the file: the evaluator has failed."},

	{CodeNotAnObject, "A document is not an object.", "Write apiVersion, kind, metadata and spec."},
	{CodeUnknownKind, "The kind is unknown.", "Use one of the kinds that are named."},
	{CodeUnknownField, "The field is unknown. The platform rejects it, because it would have no effect.", "Correct a typing error; the finding lists the known fields."},
	{CodeMissingField, "A required field is missing.", "Add it."},
	{CodeWrongType, "The value is of another type than the field.", "Write the expected value."},
	{CodeOutOfRange, "The number is outside of its bounds.", "Choose a value within them."},
	{CodeInvalidValue, "The value does not have the form that the field needs, or is not one of those allowed.", "Write the expected value."},
	{CodeInvalidName, "A name of the author's choosing, such as a label's, has characters that are not allowed.", "Rename it."},
	{CodeStatusDeclared, "Status is computed and not part of a desired object.", "Remove the field."},
	{CodeSecretInClear, "The value is not a reference to a secret. It may be the secret itself, so the finding does not print it.", "Write `credential:NAME`. If it was a secret, revoke it: it is in the history now."},

	{CodeDuplicateName, "Two objects of one kind, or two entries of one list, have the same name.", "Rename or remove one."},
	{CodeUnresolvedReference, "An object names another object that does not exist.", "Add the object, or correct the name."},
	{CodePolicyInvalid, "A policy does not match the definition of its key, or sets a value that another policy sets.", "Compare with the [policy keys](policies.md)."},
	{CodePolicyNotInForce, "No code reads the policy key yet, so a value would have no effect.", "Remove the policy. The [policy keys](policies.md) state what is missing."},
	{CodeRoleInvalid, "A role has the name of a role of the platform, or lists an operation that does not exist.", "Compare with the [roles](../guides/roles.md)."},
	{CodeOnlyOne, "A tree can contain only one such object.", "Remove the others."},

	{CodeIsolationUnavailable, "No driver on any node delivers the isolation of the SKU.", "Use `host_user`."},
	{CodeOnboardingUnavailable, "No adapter installs the node in this way.", "Use `manual` and install the agent."},

	{CodeManagedByAPI, "The API owns the object, and files cannot contain it.", "Change it through the API, or have the source adopt it: `gpuaas adopt KIND/NAME --to git --source NAME`."},
	{CodeManagedByGit, "The object belongs to another source.", "Change it through the API, or let this source adopt it: `gpuaas adopt KIND/NAME --to git --source NAME`."},
	{CodeKindNotAllowed, "This source cannot contain objects of this kind.", "Move it to the first source."},
	{CodeNeedsReplacement, "The field cannot change in place.", "Add a new object with another name, and remove the old one."},
	{CodeNodeInUse, "The change removes a node with live allocations.", "Drain it first, or have the change approved: `gpuaas approve REVISION`."},
	{CodePruneCap, "The change removes more objects than `gitops.prune_cap_objects` and `gitops.prune_cap_percent` allow without approval.", "Request an approval: `gpuaas approve REVISION`; or remove fewer objects at once."},
	{CodePruneDisabled, "An object is removed that is marked `gpuaas/prune: disabled`.", "Change the mark first."},
	{CodeUnderAllocations, "The change removes objects that live allocations depend on.", "Have it approved: `gpuaas approve REVISION`. Tenants stay until they release."},
	{CodeMassAction, "The change cordons or removes a large part of the fleet at once.", "Split it, or have it approved: `gpuaas approve REVISION`."},
	{CodeDiverged, "The commit does not descend from the applied commit: the branch was rewritten.", "Have it approved: `gpuaas approve REVISION`; or restore the branch."},
	{CodePolicyDenied, "A policy of the platform rejects the change.", "Read the policy that is named."},
	{CodeAnnotationInvalid, "An annotation that steers the system cannot be read.", "Compare with the guide on changes."},

	{CodeRejected, "A reviewer rejected the commit.", "Read the reason, and create another commit."},
	{CodeOvertaken, "A later commit replaced this one while it waited.", "None; the later commit is in effect."},

	{CodeMoreFindings, "The list of findings is truncated.", "Correct those above first."},
}
