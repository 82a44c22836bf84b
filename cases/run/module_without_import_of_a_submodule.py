xml.etree.ElementTree.fromstring("<a/>").tag, email.mime.text.MIMEText("x").get_content_type()
