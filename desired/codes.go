package desired

// The codes of findings: what a program may branch on, and the rule id in the
// reports of CI. A code never changes its meaning.
const (
	// Files and names, judged before anything is read.
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
	CodeImportRefused   = "import_refused"
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
	CodeOnlyOne             = "only_one"

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

// Rule is what stands behind a code.
type Rule struct {
	Code    string
	Meaning string // what was found
	Remedy  string // what to do
}

// Rules lists every code that a finding can carry, in the order in which a
// change meets them.
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
	{CodeSymlink, "An entry is a symbolic link, which could point anywhere.", "Put the file itself there."},
	{CodeSubmodule, "An entry is a submodule: another repository, which nobody reviewed here.", "Copy the files, or declare the other repository as a source of its own."},
	{CodeNameUnsafe, "A name points elsewhere, means Git's own folder on some system, has control characters, or is not in normal form C.", "Rename the file to what it shows."},
	{CodeNameCollision, "Two names are one on systems that ignore case or compose characters.", "Rename one of them."},
	{CodeFileTooLarge, "A file is larger than `gitops.max_file_bytes`.", "Split it, or take what does not belong there out."},
	{CodeTreeTooLarge, "The declarations together are larger than `gitops.max_tree_bytes`.", "Split the source, or raise the limit."},
	{CodeTooManyFiles, "There are more files than `gitops.max_files`.", "Split the source, or raise the limit."},
	{CodeTooDeep, "Folders or values are nested too deep.", "Use a flatter layout."},
	{CodeLFSPointer, "A file is a pointer of Git LFS; its content is elsewhere.", "Keep declarations in Git itself."},
	{CodeSourceEmpty, "The tree declares nothing. Applying it would remove the fleet, and a wrong folder is the likelier cause.", "Look at the source's branch and folders."},
	{CodeRepositoryTooLarge, "Fetching the repository would take more memory, disk or time than declarations need: a large file in its history, or a pack that inflates to one.", "Keep declarations in a repository of their own."},
	{CodeMalformedObject, "A commit or tree is whole, and yet none that Git would write: two readers could see two things in it.", "Make the commit anew with git."},

	{CodeSignatureRequired, "The commit is not signed, and the source demands it.", "Sign the commit: `git commit -S`."},
	{CodeSignatureInvalid, "The commit's signature is not one that the source accepts: another key, expired, another namespace, or about another tree.", "Sign with a key that the source's `verify` lists, within its time."},

	{CodeYAMLSyntax, "The file is no YAML.", "Correct the place that is named; indentation is the usual cause."},
	{CodeJSONSyntax, "The file is no JSON.", "Correct the place that is named."},
	{CodeCUESyntax, "The file is no CUE.", "Correct the place that is named; `cue vet` shows the same."},
	{CodeNotUTF8, "Text is not UTF-8.", "Save the file as UTF-8 without a byte order mark."},
	{CodeYAMLTag, "A value carries a YAML tag, which means something else to each reader.", "Write plain YAML."},
	{CodeAliasLimit, "An anchor or alias is used: a few lines of them can stand for gigabytes.", "Write the value out; repetition belongs in CUE files."},
	{CodeAmbiguousValue, "Readers disagree about this number: it begins with a zero, is not finite, or is too large.", "Write a plain number, or text in quotes."},
	{CodeDuplicateKey, "A key stands twice in one mapping. Readers disagree about which one counts.", "Keep one of them."},

	{CodeImportRefused, "A CUE file imports another module, or asks for a file to be embedded. Nothing outside the folder is read.", "Use packages that come with CUE, or copy what is needed."},
	{CodeToolFile, "The file is for CUE's own tools, and could run programs.", "Keep it outside the source's folders."},
	{CodePackageMixed, "The CUE files of one folder are of different packages.", "Give them one package clause, or folders of their own."},
	{CodeCUEEvaluation, "CUE cannot evaluate the file: a conflict, a name that is nowhere declared, a cycle.", "Correct the places that are named."},
	{CodeNotConcrete, "A value is still open: it could be one of several.", "Choose one."},
	{CodeLooseValue, "A top-level field is neither an object nor a list or struct of objects.", "Begin helpers with `_` or `#`."},
	{CodeEvaluationLimit, "Evaluating took more memory or time than a fleet needs.", "Simplify the expression; a bomb is refused the same way."},
	{CodeEvaluatorFailed, "The evaluator broke down on these files.", "Simplify them, and report the file: this is a fault of ours."},

	{CodeNotAnObject, "A document is something else than an object.", "Write apiVersion, kind, metadata and spec."},
	{CodeUnknownKind, "There is no such kind.", "Use one of the kinds that are named."},
	{CodeUnknownField, "There is no such field. It would be ignored, and is therefore refused.", "Look for a typing error; the fields that exist are named."},
	{CodeMissingField, "A field that is needed is not there.", "Add it."},
	{CodeWrongType, "The value is of another type than the field.", "Write what is expected."},
	{CodeOutOfRange, "The number is outside of its bounds.", "Choose a value within them."},
	{CodeInvalidValue, "The value does not have the form that the field needs, or is not one of those allowed.", "Write what is expected."},
	{CodeInvalidName, "A name of the author's choosing, such as a label's, has characters that are not allowed.", "Rename it."},
	{CodeStatusDeclared, "Status is observed and never declared.", "Take it out."},
	{CodeSecretInClear, "Where a reference to a secret belongs stands something else. It may be the secret itself, so it is not repeated.", "Write `env:NAME`, `file:/path` or `credential:NAME`. If it was a secret, revoke it: it is in the history now."},

	{CodeDuplicateName, "Two objects of one kind, or two entries of one list, have the same name.", "Rename or remove one."},
	{CodeUnresolvedReference, "An object names another that is not declared.", "Declare it, or correct the name."},
	{CodePolicyInvalid, "A policy does not fit the definition of its key, or sets what another one sets already.", "Compare with the [policy keys](policies.md)."},
	{CodeOnlyOne, "There may be only one such object in a tree.", "Keep one."},

	{CodeManagedByAPI, "The object belongs to the API and cannot be kept in files.", "Change it through the API, or have the source adopt it: `gpuaas adopt KIND/NAME --to git --source NAME`."},
	{CodeManagedByGit, "The object belongs to another source.", "Change it there, or have this source adopt it: `gpuaas adopt KIND/NAME --to git --source NAME`."},
	{CodeKindNotAllowed, "This source may not declare objects of this kind.", "Declare it in the first source."},
	{CodeNeedsReplacement, "The field cannot change in place.", "Declare a new object under another name, and remove the old one."},
	{CodeNodeInUse, "A node is removed while allocations stand on it.", "Drain it first, or have the change approved: `gpuaas approve REVISION`."},
	{CodePruneCap, "The change removes more objects than `gitops.prune_cap_objects` and `gitops.prune_cap_percent` allow without approval.", "Have another person approve it: `gpuaas approve REVISION`; or take less away at once."},
	{CodePruneDisabled, "An object is removed that is marked `gpuaas/prune: disabled`.", "Change the mark first."},
	{CodeUnderAllocations, "The change takes away what live allocations stand on.", "Have it approved: `gpuaas approve REVISION`. Tenants stay until they release."},
	{CodeMassAction, "The change cordons or removes a large part of the fleet at once.", "Split it, or have it approved: `gpuaas approve REVISION`."},
	{CodeDiverged, "The commit does not descend from the one that is applied: somebody rewrote the branch.", "Have it approved: `gpuaas approve REVISION`; or restore the branch."},
	{CodePolicyDenied, "A policy of the platform refuses the change.", "Read the policy that is named."},
	{CodeAnnotationInvalid, "An annotation that steers the system cannot be read.", "Compare with the guide on changes."},

	{CodeRejected, "A person said no to this commit.", "Read the reason; make another commit."},
	{CodeOvertaken, "Another commit came while this one waited.", "Nothing: the later one says what holds."},

	{CodeMoreFindings, "There are more findings than are shown.", "Correct those above first."},
}
