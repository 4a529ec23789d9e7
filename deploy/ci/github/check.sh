#!/usr/bin/env bash
# Check files, and of a pull request what it changes about them. The inputs of the action are variables.
#
# To the output of the step go exit-code, and the comment: the path of a file in Markdown, where there is one.
set -euo pipefail
shopt -s globstar nullglob

work=$(mktemp -d -p "${RUNNER_TEMP:-/tmp}")

refuse() {
    echo "::error title=Trainfit::$1"
    exit 2
}

# The files of the patterns in $FILES. A link may not lead out of the repository, nor to what git keeps there.
matching() {
    local each real
    files=()
    for each in $FILES; do
        if [ -d "$each" ]; then continue; fi
        real=$(realpath -m -- "$each")
        if [ "$real" != "$(realpath -ms -- "$each")" ] && { [[ $real != "$PWD"/* ]] || [[ $real == "$PWD"/.git/* ]]; }; then
            refuse "a link leads out of the repository"
        fi
        files+=("$each")
    done
}

# An option for every word, or for every line, of an input.
for_words() {
    local word words
    read -r -d '' -a words <<< "$2" || true
    for word in "${words[@]}"; do options+=("$1=$word"); done
}
for_lines() {
    local line
    while IFS= read -r line; do
        if [ -n "$line" ]; then options+=("$1=$line"); fi
    done <<< "$2"
}

# What the change is merged into: a merge commit that the runner made names it, even in a shallow clone.
base_commit() {
    local parents
    mapfile -t parents < <(git cat-file commit HEAD | sed -n -e '/^$/q' -e 's/^parent //p')
    if [ "${parents[1]:-}" = "$HEAD" ]; then echo "${parents[0]}"; else echo "$BASE"; fi
}

# The files of the patterns, as they are in the base, in a folder. No program of a filter or a hook is run.
read_base() {
    local commit pattern patterns words
    commit=$(base_commit)
    read -r -d '' -a words <<< "$FILES" || true
    for pattern in "${words[@]}"; do patterns+=(":(glob)$pattern"); done
    git cat-file -e "$commit^{commit}" 2> /dev/null || git fetch --quiet --no-tags --depth=1 origin "$commit"
    export GIT_INDEX_FILE=$work/index GIT_LFS_SKIP_SMUDGE=1
    git read-tree "$commit"
    git ls-files -z -- "${patterns[@]}" | git checkout-index -z --stdin --prefix="$1/"
}

# The report of the base, which may match nothing.
price_base() (
    mkdir "$work/base"
    read_base "$work/base"
    cd -P "$work/base"
    matching
    local each present=()
    for each in "${files[@]}"; do
        if [ -f "$each" ]; then present+=("$each"); fi
    done
    if [ ${#present[@]} -eq 0 ]; then
        echo '{"checks": []}' > "$1"
    else
        trainfit fit-check "${options[@]}" --no-suggest --format json --output "$1" -- "${present[@]}" > /dev/null || [ -s "$1" ]
    fi
)

cd -P .
matching
if [ ${#files[@]} -eq 0 ]; then refuse "no file matches"; fi
options=("--fail-on=$FAIL_ON" "--on-error=$ON_ERROR")
for_words --gpu "$GPU"
for_words --accept-unsupported "$ACCEPT_UNSUPPORTED"
for_lines --allow "$ALLOW"
for_lines --env "$LAUNCH_ENV"
if [ -n "$ARGV" ]; then options+=("--argv=$ARGV"); fi
if [ -n "$LAUNCH_FORMAT" ]; then options+=("--launch-format=$LAUNCH_FORMAT"); fi
if [ -n "$HEADROOM_RATIO" ]; then options+=("--headroom-ratio=$HEADROOM_RATIO"); fi
if [ -n "$SERVER" ]; then options+=("--server=$SERVER"); fi
if [ "$ONLINE" = true ]; then options+=(--online); fi

reports=()
comment=''
if [ -n "$SARIF" ]; then reports+=("--report=sarif=$SARIF"); fi
if [ "$COMMENT" = true ] && [ -n "$BASE" ]; then
    comment=$work/comment.md
    reports+=("--report=markdown=$comment")
    # In a process of its own: what fails there, fails as a whole, and stops nothing else.
    price_base "$work/base.json" &
    if wait $!; then
        reports+=("--baseline=$work/base.json")
    else
        echo "::warning title=Trainfit::the base could not be read; the comment has no difference"
    fi
fi

code=0
trainfit fit-check "${options[@]}" "${reports[@]}" --format github -- "${files[@]}" || code=$?
{
    echo "exit-code=$code"
    if [ -f "$comment" ]; then echo "comment=$comment"; fi
} >> "$GITHUB_OUTPUT"
