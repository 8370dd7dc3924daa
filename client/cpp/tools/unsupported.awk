# Writes the functions of ACL that are exported and not done: each fails, with a text that names it.
#
# They are those that symbols/unsupported.txt lists and those that the headers declare, without those
# that src/runtime defines. A function in C may be called with more arguments than it looks at.
BEGIN {
  print "/* Made at build time, by tools/unsupported.awk. Do not edit. */"
  print ""
  print "int aclnn_not_supported(const char* name);"
  print ""
  print "#pragma GCC visibility push(default)"
  print ""
}

FILENAME ~ /unsupported\.txt$/ {
  if (NF == 2 && $1 !~ /^#/) { kinds[$2] = $1; order[++count] = $2 }
  next
}

FILENAME ~ /\.h$/ && match($0, /^ACL_FUNC_VISIBILITY [^(]*\(/) {
  declaration = substr($0, 1, RLENGTH - 1)
  sub(/^ACL_FUNC_VISIBILITY +/, "", declaration)
  name = declaration
  sub(/^.*[ *]/, "", name)
  if (!(name in kinds)) order[++count] = name
  sub(/[A-Za-z0-9_]+$/, "", declaration)
  kinds[name] = declaration ~ /\*/ ? "pointer" : declaration ~ /^void/ ? "void" : "code"
}

FILENAME ~ /\.cc$/ && match($0, /^[A-Za-z_][A-Za-z0-9_* ]*[ *](acl|rt|Msprof)[A-Za-z0-9_]*\(/) {
  name = substr($0, 1, RLENGTH - 1)
  sub(/^.*[ *]/, "", name)
  defined[name] = 1
}

END {
  for (i = 1; i <= count; i++) {
    name = order[i]
    if (name in defined) continue
    if (kinds[name] == "code") {
      printf "int %s(void);\nint %s(void) { return aclnn_not_supported(\"%s\"); }\n\n", name, name, name
    } else if (kinds[name] == "void") {
      printf "void %s(void);\nvoid %s(void) { aclnn_not_supported(\"%s\"); }\n\n", name, name, name
    } else {
      printf "long %s(void);\nlong %s(void) {\n", name, name
      printf "  aclnn_not_supported(\"%s\");\n  return 0;\n}\n\n", name
    }
  }
}
