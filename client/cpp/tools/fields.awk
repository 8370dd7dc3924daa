# Writes the schema's field numbers and enum values as C++ constants, from the headers that protoc makes of it.
#
# The libraries encode by hand (src/wire): Debian's static libprotobuf cannot be linked into a shared library,
# and a dynamic one would meet the copies of whatever else is in the process.
BEGIN {
  print "// Made from proto/aclnn/v1/*.proto at build time, by tools/fields.awk. Do not edit."
  print "#pragma once"
  print ""
  print "#include <cstdint>"
  print ""
  print "namespace aclnn::fields {"
}
/^class [A-Za-z0-9]+ final/ { message = $2; opened = 0 }
/^    k[A-Za-z0-9]+FieldNumber = [0-9]+,/ {
  if (!opened) { close_message(); printf "namespace %s {\n", message; opened = 1; inside = 1 }
  sub(/FieldNumber/, "", $1)
  sub(/,/, "", $3)
  printf "constexpr uint32_t %s = %s;\n", $1, $3
}
/^enum [A-Za-z]+ : int \{/ { close_message(); values = 1; next }
values && /^  [A-Z0-9_]+ = [0-9]+,/ { sub(/,/, "", $3); printf "constexpr uint32_t %s = %s;\n", $1, $3 }
values && /^\}|INT_MIN/ { values = 0 }
END { close_message(); print "}  // namespace aclnn::fields" }

function close_message() {
  if (inside) { printf "}\n"; inside = 0 }
}
